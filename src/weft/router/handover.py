"""The socket of a router, handed to a scheduler that asks for it: connections then wait while another router starts."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "router.sock"
"""Where the scheduler gets the listening socket of a router that it finds."""


def end_without_folder(folder: Path) -> None:
    """End this process if the folder of its scheduler is gone: no scheduler will come back there."""
    if not folder.is_dir():
        os.kill(os.getpid(), signal.SIGTERM)


def offer_socket(listening: socket.socket, path: str) -> None:
    """Give a copy of the listening socket to every process of this user that connects to `path`."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        door.bind(path)
    finally:
        os.umask(before)
    door.listen(8)
    door.setblocking(False)

    def answer() -> None:
        with suppress(OSError):
            caller, _ = door.accept()
            with caller:
                socket.send_fds(caller, [b"s"], [listening.fileno()])

    asyncio.get_running_loop().add_reader(door, answer)
