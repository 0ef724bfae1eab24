"""The socket on which jobs of this machine report progress, as JSON datagrams. `weft.train` is the sender.

The kernel names the user that sent a message. A message counts only if that user is the one of the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 65536
MAX_MESSAGES_PER_WAKEUP: Final = 1000
_CREDENTIALS: Final = struct.Struct("iII")
"""Process, user and group of a sender."""


class ProgressSocket:
    """Passes each message to `handle`, and drops messages that are malformed or that `handle` rejects.

    `owner` returns the user of a run by its job and number; then all users of the machine may send. None: only the user
    of this process may.
    """

    def __init__(
        self,
        path: Path,
        handle: Callable[[dict[str, Any]], None],
        owner: Callable[[str, int], int] | None = None,
    ) -> None:
        self._path, self._handle, self._owner = str(path), handle, owner
        self._socket: socket.socket | None = None

    def open(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, self._owner is not None)
        self._socket.bind(self._path)
        if self._owner is not None:
            os.chmod(self._path, 0o666)
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
                message, control, _, _ = self._socket.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError):
                body = json.loads(message)
                if self._owner is None or self._owner(str(body["job"]), int(body["run"])) == _sender(control):
                    self._handle(body)


def _sender(control: list[tuple[int, int, bytes]]) -> int | None:
    """Return the user that sent a message, as the kernel names it."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _CREDENTIALS.size:
            return int(_CREDENTIALS.unpack(data)[1])
    return None
