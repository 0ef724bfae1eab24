"""Free TCP ports for the rendezvous of a run's processes."""

from __future__ import annotations

import errno
import socket


def is_free(address: str, port: int) -> bool:
    """Return whether the port can be bound now. Addresses of other machines count as free."""
    for family, kind, _, _, target in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(target)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def find_free_port() -> int:
    """Return a port that is unused on this machine."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
