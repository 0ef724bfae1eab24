"""The streams to agents and their send queues.

The protocol tolerates lost messages: an agent that reads too slowly loses what exceeds the limit, and gets it again
after its next heartbeat. No stream blocks another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

import grpc

from weft.access.auth.identity import Caller
from weft.access.wire.messages import SchedulerMessage
from weft.server.nodes.outbox import Close, Reply

MAX_QUEUED_MESSAGES: Final = 10_000
MAX_QUEUED_BYTES: Final = 16 << 20
"""The limits of the send queue of one agent."""
CLOSE_TIMEOUT_S: Final = 1.0
log = logging.getLogger(__name__)


class Stream:
    """One connection. `write` sends what `send` has queued, in order."""

    def __init__(self, who: Caller) -> None:
        self.who = who
        self.end: Close | None = None
        """The status to end the stream with; None while it is open."""
        self.dropped = 0
        self._waiting: deque[SchedulerMessage] = deque()
        self._bytes = 0
        self._is_over = False
        self._more = asyncio.Event()

    def send(self, message: SchedulerMessage) -> None:
        size = message.ByteSize()
        if len(self._waiting) >= MAX_QUEUED_MESSAGES or self._bytes + size > MAX_QUEUED_BYTES:
            self.dropped += 1
            if self.dropped == 1:
                log.warning(
                    "an agent of %s reads too slowly; messages to it are dropped and sent again later", self.who.user
                )
            return
        self._waiting.append(message)
        self._bytes += size
        self._more.set()

    def close(self, end: Close) -> None:
        """End the stream once all queued messages are sent."""
        self.end = self.end or end
        self._more.set()

    async def write(self, context: Any) -> None:
        """Send queued messages until the stream is closed."""
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
        """Wait for the last message: while one is being written, gRPC cannot send the status that ends a stream, and
        the agent would wait for it for ever. Queued messages get CLOSE_TIMEOUT_S."""
        if self.end is not None:
            await asyncio.wait({writing}, timeout=CLOSE_TIMEOUT_S)
        self._waiting.clear()
        self._is_over = True
        self._more.set()
        await asyncio.wait({writing})


class Streams:
    """All streams, by the connection numbers that the registry uses."""

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
        """Queue a message. Return False if the connection is gone."""
        stream = self._streams.get(conn)
        if stream is not None:
            stream.send(message)
        return stream is not None

    def deliver(self, replies: list[Reply]) -> None:
        """Send the replies of the registry, and close the streams that it wants closed."""
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
    """End the stream with a status. `abort` raises, as gRPC wants it."""
    await context.abort(grpc.StatusCode[close.code], close.words)
