"""A TLS connection made by hand, to look at who is at the other end. Calls go through gRPC."""

from __future__ import annotations

import socket
import ssl

from weft.wire.addresses import Address


def connected(context: ssl.SSLContext, where: Address, timeout_s: float) -> ssl.SSLSocket:
    """Raises ssl.SSLError or OSError.

    The socket is wrapped before it is connected: Python leaves one open that is reset between the two.
    """
    refusal: OSError = OSError(f"{where.host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM):
        secure = context.wrap_socket(socket.socket(family, kind, protocol), server_hostname=where.host)
        secure.settimeout(timeout_s)
        try:
            secure.connect(address)
        except OSError as error:
            secure.close()
            if isinstance(error, ssl.SSLError):
                raise
            refusal = error
        else:
            return secure
    raise refusal
