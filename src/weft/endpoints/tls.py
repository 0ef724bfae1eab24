"""To know a scheduler by the fingerprint of its certificate authority alone: that is all that a join token carries."""

from __future__ import annotations

import hashlib
import socket
import ssl
from typing import Any, Final

from weft.endpoints.addresses import Address
from weft.errors import Unreachable, WeftError

HANDSHAKE_S: Final = 10.0


def fingerprint(pem: bytes) -> str:
    """The SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` has it, in small letters without colons."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).hexdigest()
    except ValueError:
        raise WeftError("not a certificate in PEM") from None


def authority_at(where: Address, wanted: str) -> bytes:
    """The certificate with this fingerprint, as PEM, of those that the scheduler shows. Nothing is told to it yet."""
    try:
        shown = _chain(where)
    except ssl.SSLError as error:
        raise Unreachable(f"{where} does not speak TLS ({error.reason or error})\n  is that the scheduler?") from None
    except OSError as error:
        raise Unreachable(f"{where} cannot be reached: {error.strerror or error}\n  is weft server running?") from None
    for each in shown:
        if hashlib.sha256(each).hexdigest() == wanted:
            return ssl.DER_cert_to_PEM_cert(each).encode()
    raise Unreachable(
        f"what listens at {where} is not the scheduler that this token is for: its authority is another\n"
        "  check the address; ask for a new token if weft auth init was called anew"
    )


def _chain(where: Address) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is known by its fingerprint, afterwards
    context.set_alpn_protocols(["h2"])
    with connected(context, where, HANDSHAKE_S) as secure:
        if hasattr(secure, "get_unverified_chain"):  # from Python 3.13 on
            return list(secure.get_unverified_chain())
        found: Any = secure._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
        return [each.public_bytes(ssl._ssl.ENCODING_DER) for each in found or ()]  # type: ignore[attr-defined]


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
