"""Ports at which the processes of a run meet."""

from __future__ import annotations

import errno
import socket


def is_free(address: str, port: int) -> bool:
    """Whether it could be listened at, just now. An address that is not this machine's is not ours to judge."""
    for family, kind, _, _, where in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(where)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def find_free_port() -> int:
    """One that nobody on this machine listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
