"""The agent's connection to the scheduler: one stream at a time, with backoff between attempts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
import grpc.aio

from weft.access.wire.failures import decode_error
from weft.access.wire.messages import AgentMessage, BlobName, SchedulerMessage
from weft.access.wire.service import call
from weft.errors import NotPermitted, Unreachable, WeftError

FIRST_RETRY_S: Final = 0.2
MAX_RETRY_S: Final = 10.0
RETRY_GROWTH: Final = 1.6
MAX_QUEUED_MESSAGES: Final = 10_000
"""Close the connection when more messages wait: the scheduler does not read them."""
REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
    }
)
"""Statuses for which trying again does not help by itself."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerChannel:
    """An open channel to the scheduler, and the metadata for its calls."""

    channel: Any
    metadata: Sequence[tuple[str, str]] = ()
    ready_s: float | None = None
    """The time in which the server must answer; None: any. A server that was stopped accepts connections."""


Dial = Callable[[], SchedulerChannel]
"""Opens a channel. Raises WeftError if the scheduler is unreachable or rejects the credentials."""
READY_S: Final = 2.0
"""The time in which one of several servers must answer."""
MAX_RETRY_OF_SEVERAL_S: Final = 1.0
"""The longest pause while one of several servers takes over."""


class ServerCycle:
    """The servers of a scheduler, of which one leads. It dials the same one until `advance` is called."""

    def __init__(self, dials: Sequence[Dial]) -> None:
        self._dials, self._at = tuple(dials), 0

    def __call__(self) -> SchedulerChannel:
        made = self._dials[self._at]()
        return replace(made, ready_s=READY_S) if len(self._dials) > 1 else made

    def advance(self) -> None:
        """Dial the next server from now on: the last one does not lead."""
        self._at = (self._at + 1) % len(self._dials)

    @property
    def max_retry_s(self) -> float:
        return MAX_RETRY_OF_SEVERAL_S if len(self._dials) > 1 else MAX_RETRY_S


class Disconnected(Exception):
    """The connection has ended. `refusal` is the name of the status if the scheduler refused it."""

    def __init__(self, reason: str, refusal: str = "") -> None:
        super().__init__(reason)
        self.reason, self.refusal = reason, refusal


class Backoff:
    """Increasing delays with jitter, so that agents do not all reconnect at once."""

    first_s = FIRST_RETRY_S

    def __init__(self, max_s: float = MAX_RETRY_S) -> None:
        self._next_s, self._max_s = FIRST_RETRY_S, max_s

    def reset(self) -> None:
        self._next_s = FIRST_RETRY_S

    def next_delay_s(self) -> float:
        wait_s = self._next_s * random.uniform(0.5, 1.5)
        self._next_s = min(self._next_s * RETRY_GROWTH, self._max_s)
        return wait_s


class Stream:
    """One connection, with an ordered queue of outgoing messages."""

    def __init__(self, scheduler: SchedulerChannel) -> None:
        self.scheduler = scheduler
        self._queue: deque[AgentMessage] = deque()
        self._queued = asyncio.Event()
        self._close_reason = ""
        self._call: Any = None

    @property
    def is_idle(self) -> bool:
        """True if the queue is empty: messages that are not urgent may then be sent."""
        return not self._queue

    def send(self, message: AgentMessage) -> None:
        self._queue.append(message)
        self._queued.set()
        if len(self._queue) > MAX_QUEUED_MESSAGES:
            self.close("the scheduler does not read the messages of this worker")

    def close(self, reason: str) -> None:
        self._close_reason = self._close_reason or reason
        if self._call is not None:
            self._call.cancel()

    async def run(self, handle: Callable[[SchedulerMessage], None], *tasks: Coroutine[Any, Any, None]) -> None:
        """Run until the connection ends, then raise Disconnected. `tasks` are cancelled with it."""
        try:
            await self._await_server()
        except BaseException:
            for work in tasks:
                work.close()  # they were not started
            raise
        self._call = call(self.scheduler.channel, "Attach", "Agents")(metadata=tuple(self.scheduler.metadata))
        running = [asyncio.ensure_future(work) for work in (self._write(), *tasks)]
        for task in running:
            task.add_done_callback(self._on_task_done)
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                handle(message)
            raise self._disconnected(await self._call.code(), await self._call.details())
        except grpc.aio.AioRpcError as error:
            raise self._disconnected(error.code(), error.details()) from None
        except asyncio.CancelledError:
            if not self._close_reason:
                raise
            raise Disconnected(self._close_reason) from None
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._call.cancel()
            with suppress(Exception):
                await self.scheduler.channel.close()

    async def _await_server(self) -> None:
        if self.scheduler.ready_s is None:
            return
        try:
            await asyncio.wait_for(self.scheduler.channel.channel_ready(), self.scheduler.ready_s)
        except TimeoutError:
            await self.scheduler.channel.close()
            raise Disconnected("the scheduler does not answer") from None

    def _on_task_done(self, task: asyncio.Future[None]) -> None:
        """Close the connection if one of its tasks fails."""
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, grpc.RpcError):
            log.error("a task of the connection failed; closing it", exc_info=error)
            self.close(f"internal error of the worker: {error!r}")

    def _disconnected(self, code: grpc.StatusCode, details: str | None) -> Disconnected:
        error = decode_error(details or "")
        reason = self._close_reason or (str(error) if error else details) or code.name.lower().replace("_", " ")
        if code == grpc.StatusCode.UNAVAILABLE and not self._close_reason:
            reason = "the scheduler cannot be reached"
        return Disconnected(reason, code.name if code in REFUSALS and not self._close_reason else "")

    async def _write(self) -> None:
        while True:
            while self._queue:
                try:
                    await self._call.write(self._queue[0])
                except asyncio.InvalidStateError:
                    return  # the scheduler has ended the call: `run` reads why
                self._queue.popleft()
            self._queued.clear()
            await self._queued.wait()


def disconnected_by(error: WeftError) -> Disconnected:
    """Return the end of a connection that could not be opened."""
    refusal = "PERMISSION_DENIED" if isinstance(error, NotPermitted) else ""
    return Disconnected(str(error), refusal if not isinstance(error, Unreachable) else "")


async def fetch_blob(dial: Dial, name: str) -> AsyncIterator[bytes]:
    """Fetch a blob over a separate connection, so that a large file does not delay heartbeats."""
    scheduler = dial()
    try:
        async for part in call(scheduler.channel, "Get", "Blobs")(
            BlobName(sha256=name), metadata=tuple(scheduler.metadata)
        ):
            yield part.bytes
    finally:
        await scheduler.channel.close()
