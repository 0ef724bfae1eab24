"""Where jobs on this machine say how far they are: datagrams of JSON. See `weft.train` for the other end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 65536
AT_A_TIME: Final = 1000


class ProgressSocket:
    """Hands on what makes sense. What it is handed to may raise where it does not."""

    def __init__(self, path: Path, take: Callable[[dict[str, Any]], None]) -> None:
        self._path, self._take = str(path), take
        self._socket: socket.socket | None = None

    def open(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(self._path)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._on_message)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _on_message(self) -> None:
        assert self._socket is not None
        for _ in range(AT_A_TIME):
            try:
                message = self._socket.recv(MOST_BYTES)
            except BlockingIOError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError):
                self._take(json.loads(message))
