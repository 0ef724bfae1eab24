"""The agent's connection to the scheduler: one stream at a time, with backoff between attempts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from weft.errors import NotPermitted, Unreachable, WeftError
from weft.wire.failures import decode_error
from weft.wire.messages import AgentMessage, SchedulerMessage
from weft.wire.service import call

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


Dial = Callable[[], SchedulerChannel]
"""Opens a channel. Raises WeftError if the scheduler is unreachable or rejects the credentials."""


class Disconnected(Exception):
    """The connection has ended. `refusal` is the name of the status if the scheduler refused it."""

    def __init__(self, reason: str, refusal: str = "") -> None:
        super().__init__(reason)
        self.reason, self.refusal = reason, refusal


class Backoff:
    """Increasing delays with jitter, so that agents do not all reconnect at once."""

    def __init__(self) -> None:
        self._next_s = FIRST_RETRY_S

    def reset(self) -> None:
        self._next_s = FIRST_RETRY_S

    def next_delay_s(self) -> float:
        wait_s = self._next_s * random.uniform(0.5, 1.5)
        self._next_s = min(self._next_s * RETRY_GROWTH, MAX_RETRY_S)
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
                await self._call.write(self._queue[0])
                self._queue.popleft()
            self._queued.clear()
            await self._queued.wait()


def disconnected_by(error: WeftError) -> Disconnected:
    """Return the end of a connection that could not be opened."""
    refusal = "PERMISSION_DENIED" if isinstance(error, NotPermitted) else ""
    return Disconnected(str(error), refusal if not isinstance(error, Unreachable) else "")
