"""The socket on which jobs of this machine report progress, as JSON datagrams. `weft.train` is the sender."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 65536
MAX_MESSAGES_PER_WAKEUP: Final = 1000


class ProgressSocket:
    """Passes each message to `handle`, and drops messages that are malformed or that `handle` rejects."""

    def __init__(self, path: Path, handle: Callable[[dict[str, Any]], None]) -> None:
        self._path, self._handle = str(path), handle
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
        for _ in range(MAX_MESSAGES_PER_WAKEUP):
            try:
                message = self._socket.recv(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError):
                self._handle(json.loads(message))
