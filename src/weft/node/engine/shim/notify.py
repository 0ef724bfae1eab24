"""Notifications from a shim to the engine: one datagram each. Without an engine they are dropped; the run's files hold
the same."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from weft.node.engine.shim.run_files import NOTIFY_SOCKET

SEND_TIMEOUT_S: Final = 1
MAX_MESSAGE_BYTES: Final = 65536


def send(runtime_dir: str, message: bytes) -> bool:
    """Send a message from a shim; return False if no engine listens.

    Waits briefly while the engine is behind with reading. Changes the working directory to `runtime_dir`.
    """
    try:
        # a relative name, because a unix socket address is limited to 108 bytes and the path may be longer
        os.chdir(runtime_dir)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
            sock.sendto(message, NOTIFY_SOCKET)
    except OSError:
        return False
    return True


def listen(runtime_dir: str) -> socket.socket:
    """Return the engine's non-blocking socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    directory = os.open(runtime_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        address = f"/proc/self/fd/{directory}/{NOTIFY_SOCKET}"
        if os.path.lexists(address):
            os.unlink(address)
        sock.bind(address)
        os.chmod(address, 0o600)
    except OSError:
        sock.close()
        raise
    finally:
        os.close(directory)
    sock.setblocking(False)
    return sock


def receive(sock: socket.socket, limit: int = 64) -> list[bytes]:
    """Return up to `limit` pending messages."""
    messages: list[bytes] = []
    while len(messages) < limit:
        try:
            messages.append(sock.recv(MAX_MESSAGE_BYTES))
        except BlockingIOError:
            break
    return messages
