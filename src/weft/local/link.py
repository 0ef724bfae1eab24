"""The engine's end of the warm starter: starts it, sends it orders, notices when it has gone."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from weft.local.starter import LENGTH

_SOURCE: Final = str(Path(__file__).resolve().parents[2])
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[2]); from weft.local.starter import main; main(int(sys.argv[1]))"
)
_PYTHON: Final = ("-I", "-S", "-X", "utf8", "-c", _CODE)
"""Nothing of the caller's environment, no site packages: a small process forks fast."""


class StarterLink(asyncio.Protocol):
    """One starter process. `refused` hears of orders it could not fork for, `gone` when it has died."""

    def __init__(self, refused: Callable[[dict[str, Any]], None], gone: Callable[[], None]) -> None:
        self._refused, self._gone = refused, gone
        self._pending = b""
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: socket.socket | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def open(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, *_PYTHON, str(theirs.fileno()), _SOURCE],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={},
                cwd="/",
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._transport = transport

    def send(self, order: bytes) -> None:
        if self._transport is not None:
            self._transport.writelines((LENGTH.pack(len(order)), order))

    def close(self) -> None:
        """Let the starter end by itself; the runs it began do not notice."""
        self._gone = lambda: None
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._pending += data
        while len(self._pending) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._pending)[0]
            if len(self._pending) < end:
                break
            body, self._pending = self._pending[LENGTH.size : end], self._pending[end:]
            self._refused(json.loads(body))

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._gone()
