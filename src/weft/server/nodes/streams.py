"""The streams of agents: who is at the other end, and what waits to be sent there.

Messages may be lost, the protocol says: an agent that does not read fast enough loses what is over the limit, and is
told again with its next heartbeat. Nothing that is sent holds up anybody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

import grpc

from weft.server.auth.identity import Caller
from weft.server.nodes.outbox import Close, Reply
from weft.wire.messages import SchedulerMessage

MOST_WAITING: Final = 10_000
MOST_BYTES: Final = 16 << 20
"""So much may wait for one agent to read it."""
LAST_S: Final = 1.0
log = logging.getLogger(__name__)


class Stream:
    """One connection. `write` sends in order what `send` put in line."""

    def __init__(self, who: Caller) -> None:
        self.who = who
        self.end: Close | None = None
        """With which status it is to be ended."""
        self.dropped = 0
        self._waiting: deque[SchedulerMessage] = deque()
        self._bytes = 0
        self._is_over = False
        self._more = asyncio.Event()

    def send(self, message: SchedulerMessage) -> None:
        size = message.ByteSize()
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("an agent of %s does not read what it is sent; it is told again later", self.who.user)
            return
        self._waiting.append(message)
        self._bytes += size
        self._more.set()

    def close(self, end: Close) -> None:
        """Once what waits has been sent."""
        self.end = self.end or end
        self._more.set()

    async def write(self, context: Any) -> None:
        """Until it is closed."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= message.ByteSize()
                await context.write(message)
            if self.end is not None or self._is_over:
                return
            self._more.clear()
            await self._more.wait()

    async def finish(self, writing: asyncio.Future[None]) -> None:
        """Waits for the last that is written: while a message is under way, gRPC cannot send the status that ends a
        stream, and the other end would wait for it for ever. What is only in line has a moment."""
        if self.end is not None:
            await asyncio.wait({writing}, timeout=LAST_S)
        self._waiting.clear()
        self._is_over = True
        self._more.set()
        await asyncio.wait({writing})


class Streams:
    """All of them, by the numbers that the registry knows them by."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, who: Caller) -> tuple[int, Stream]:
        self._last += 1
        stream = self._streams[self._last] = Stream(who)
        return self._last, stream

    def remove(self, conn: int) -> None:
        self._streams.pop(conn, None)

    def send(self, conn: int, message: SchedulerMessage) -> bool:
        """False: it is gone."""
        stream = self._streams.get(conn)
        if stream is not None:
            stream.send(message)
        return stream is not None

    def carry_out(self, replies: list[Reply]) -> None:
        for reply in replies:
            stream = self._streams.get(reply.conn)
            if stream is None:
                continue
            if isinstance(reply, Close):
                stream.close(reply)
            else:
                stream.send(reply.message)

    def close_all(self, code: str, words: str) -> None:
        for conn, stream in self._streams.items():
            stream.close(Close(conn, code, words))


async def end(context: Any, close: Close) -> None:
    """Raises: so gRPC has it."""
    await context.abort(grpc.StatusCode[close.code], close.words)
