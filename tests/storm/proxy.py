"""A small TCP proxy in a thread, which can delay and cut connections to a port of this machine."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

Way = Literal["up", "down"]
"""Towards the target, or back from it."""
RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Data that is held up is not lost: it arrives late, when the way is open again, as TCP does with
    packets that vanish."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lines: set[asyncio.StreamWriter] = set()
        self._refuses, self._delay_s, self.port = False, 0.0, 0
        self._is_open: dict[Way, asyncio.Event] = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._over = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._mend()
        ready.set()
        await self._over.wait()
        server.close()
        self._cut()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    # ---- how it is made bad

    def cut(self, *, refuse: bool = False) -> None:
        """All connections are reset; with `refuse`, new ones are too."""
        self._do(lambda: self._cut(refuse=refuse))

    def hold(self, *ways: Way) -> None:
        """Nothing gets through, this way: connections stay."""
        self._do(lambda: self._hold(ways))

    def delay(self, seconds: float) -> None:
        """Delay everything that is sent by this long, one piece after the other."""
        self._do(lambda: setattr(self, "_delay_s", seconds))

    def mend(self) -> None:
        self._do(self._mend)

    def _do(self, change: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(change)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _hold(self, ways: Sequence[Way]) -> None:
        for way in ways:
            self._is_open[way].clear()

    def _cut(self, *, refuse: bool = False) -> None:
        self._refuses = refuse
        for line in self._lines:
            _reset(line)

    def _mend(self) -> None:
        self._refuses, self._delay_s = False, 0.0
        for gate in self._is_open.values():
            gate.set()

    # ---- what it carries

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        self._lines |= {writer, far_writer}
        try:
            await asyncio.gather(self._carry(reader, far_writer, "up"), self._carry(far_reader, writer, "down"))
        finally:
            self._lines -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        with suppress(OSError):
            while piece := await reader.read(1 << 16):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._is_open[way].wait()
                writer.write(piece)
                await writer.drain()
        await self._is_open[way].wait()
        with suppress(OSError):
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    line = writer.get_extra_info("socket")
    with suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
