"""Sends requests at the times they are due, over a bounded number of connections, whether or not answers come."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import httptools

from weft.lab.load.figures import FAILED, NOT_SENT, TIMED_OUT, Sent

MAX_WAITING: Final = 10_000
"""Requests that are due and have no connection; further ones are not sent."""
CHECK_S: Final = 0.1
TURN: Final = 200
"""Requests that are sent in a row before answers are read."""


@dataclass(frozen=True)
class LoadPlan:
    """Where requests go, and when."""

    host: str
    port: int
    request: bytes
    """Head and body."""
    times_s: Sequence[float]
    connections: int = 256
    timeout_s: float = 60.0
    tls: ssl.SSLContext | None = None
    head_only: bool = False
    """True for HEAD requests, whose answers have no body."""


class _Connection(asyncio.Protocol):
    """One connection, and the request that waits for its answer."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.transport: asyncio.Transport | None = None
        self._due_s: float | None = None
        self._first_s = 0.0
        self._status = 0
        self._keeps = True
        self._in_body = self._ends_by_closing = False
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, due_s: float) -> None:
        self._due_s, self._first_s, self._status, self._in_body = due_s, 0.0, 0, False
        assert self.transport is not None
        self.transport.write(self._sender.plan.request)

    def data_received(self, data: bytes) -> None:
        if self._due_s is None:
            self.close()
            return
        if not self._first_s:
            self._first_s = self._sender.now_s() - self._due_s
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._due_s is not None:
                self._end(FAILED)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._due_s is not None:
            is_whole = error is None and self._in_body and self._ends_by_closing
            self._end(self._status if is_whole else FAILED)
        self._sender.forget(self)

    def check(self, oldest_s: float) -> None:
        """End a request that takes too long."""
        if self._due_s is not None and self._due_s < oldest_s:
            self._end(TIMED_OUT)
            self.close()

    def _end(self, status: int) -> None:
        due_s, self._due_s = self._due_s, None
        assert due_s is not None
        self._sender.record(due_s, self._first_s, status)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._ends_by_closing = True

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._ends_by_closing = False

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._keeps = self._parser.should_keep_alive() and not self._sender.plan.head_only
        self._in_body = self._status >= 200
        if self._in_body and self._sender.plan.head_only:
            self.on_message_complete()

    def on_message_complete(self) -> None:
        if not self._in_body or self._due_s is None:
            return
        self._end(self._status)
        if self._keeps:
            self._sender.free(self)
        else:
            self.close()


class Sender:
    """An open loop: requests go out when they are due, and their times count from then."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self.sent: list[Sent] = []
        self._loop = asyncio.get_running_loop()
        self._began_s = 0.0
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening = 0
        self._waiting: deque[float] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, progress: Callable[[int], None] = lambda _done: None) -> list[Sent]:
        """Send all requests; return them once all have ended."""
        self._began_s = self._loop.time()
        checks = self._loop.create_task(self._check(progress))
        try:
            for at, due_s in enumerate(self.plan.times_s):
                if (early_s := due_s - self.now_s()) > 0:
                    await asyncio.sleep(early_s)
                elif at % TURN == 0:
                    await asyncio.sleep(0)
                self._send(due_s)
            while len(self.sent) < len(self.plan.times_s):
                await asyncio.sleep(0.005)
        finally:
            checks.cancel()
            for task in self._tasks:
                task.cancel()
            for connection in list(self._open):
                connection.close()
            await asyncio.gather(checks, *self._tasks, return_exceptions=True)
        return self.sent

    def now_s(self) -> float:
        """Return the seconds since the start."""
        return self._loop.time() - self._began_s

    def _send(self, due_s: float) -> None:
        if self._idle:
            self._idle.pop().send(due_s)
        elif len(self._waiting) >= MAX_WAITING:
            self.record(due_s, 0.0, NOT_SENT)
        else:
            self._waiting.append(due_s)
            self._grow()

    def _grow(self) -> None:
        """Open a connection if a request waits and has none coming."""
        if self._opening < len(self._waiting) and len(self._open) + self._opening < self.plan.connections:
            self._opening += 1
            task = self._loop.create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(self.plan.timeout_s):
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self), self.plan.host, self.plan.port, ssl=self.plan.tls
                )
        except (OSError, TimeoutError):
            if self._waiting:
                self.record(self._waiting.popleft(), 0.0, FAILED)
        finally:
            self._opening -= 1
        if connection is not None and connection.transport is not None:
            self._open.add(connection)
            self.free(connection)
        self._grow()

    def free(self, connection: _Connection) -> None:
        """Use a connection for the next request, or keep it."""
        if self._waiting:
            connection.send(self._waiting.popleft())
        else:
            self._idle.append(connection)

    def forget(self, connection: _Connection) -> None:
        """Forget a lost connection, and open another for requests that wait."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._grow()

    def record(self, due_s: float, first_s: float, status: int) -> None:
        """Count a request that ended."""
        self.sent.append(Sent(due_s, first_s, self.now_s() - due_s, status))

    async def _check(self, progress: Callable[[int], None]) -> None:
        """End requests that take too long."""
        while True:
            await asyncio.sleep(CHECK_S)
            oldest_s = self.now_s() - self.plan.timeout_s
            for connection in list(self._open):
                connection.check(oldest_s)
            while self._waiting and self._waiting[0] < oldest_s:
                self.record(self._waiting.popleft(), 0.0, TIMED_OUT)
            progress(len(self.sent))


def send_all(plan: LoadPlan, progress: Callable[[int], None] = lambda _done: None) -> list[Sent]:
    """Send all requests of a plan, in uvloop if it is installed."""

    async def run() -> list[Sent]:
        return await Sender(plan).run(progress)

    try:
        import uvloop
    except ImportError:
        return asyncio.run(run())
    found: list[Sent] = uvloop.run(run())
    return found
