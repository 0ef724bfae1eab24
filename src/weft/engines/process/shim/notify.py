"""How a shim tells a scheduler that is there: one datagram. Without one it is silent; the files say the same."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from weft.engines.process.shim.run_files import BELL

PATIENCE_S: Final = 1
LARGEST: Final = 65536


def ring(runtime_dir: str, message: bytes) -> bool:
    """From a shim. Waits a moment while the scheduler is behind with reading; moves to `runtime_dir`."""
    try:
        # a relative name: the address of a unix socket holds 108 bytes, a path may be longer
        os.chdir(runtime_dir)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", PATIENCE_S, 0))
            bell.sendto(message, BELL)
    except OSError:
        return False
    return True


def hang(runtime_dir: str) -> socket.socket:
    """The scheduler's end, ready to be read without blocking."""
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    folder = os.open(runtime_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        address = f"/proc/self/fd/{folder}/{BELL}"
        if os.path.lexists(address):
            os.unlink(address)
        bell.bind(address)
        os.chmod(address, 0o600)
    except OSError:
        bell.close()
        raise
    finally:
        os.close(folder)
    bell.setblocking(False)
    return bell


def heard(bell: socket.socket, at_most: int = 64) -> list[bytes]:
    """What has been rung since; leaves the rest for the next turn."""
    messages: list[bytes] = []
    while len(messages) < at_most:
        try:
            messages.append(bell.recv(LARGEST))
        except BlockingIOError:
            break
    return messages
