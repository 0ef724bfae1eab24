"""The connection to the scheduler: one stream at a time, opened again and again for as long as the agent works."""

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
from weft.wire.messages import AgentMessage, SchedulerMessage
from weft.wire.service import call

FIRST_S: Final = 0.2
LONGEST_S: Final = 10.0
GROWTH: Final = 1.6
MOST_WAITING: Final = 10_000
"""With so many messages unsent nobody reads them: the connection is given up."""
REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
    }
)
"""Trying again does not help by itself."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """How the scheduler is reached just now."""

    channel: Any
    metadata: Sequence[tuple[str, str]] = ()


Dial = Callable[[], Way]
"""Raises WeftError where it cannot be reached, or would not let this one in."""


class Cut(Exception):
    """The connection has ended."""

    def __init__(self, words: str, refusal: str = "") -> None:
        super().__init__(words)
        self.words, self.refusal = words, refusal
        """With a refusal, the name of its status."""


class Backoff:
    """Longer and longer, and never all at the same time."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def take(self) -> float:
        wait_s = self._next_s * random.uniform(0.5, 1.5)
        self._next_s = min(self._next_s * GROWTH, LONGEST_S)
        return wait_s


class Stream:
    """One connection. What is to be sent waits in line, in order."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self._waiting: deque[AgentMessage] = deque()
        self._more = asyncio.Event()
        self._words = ""
        self._call: Any = None

    @property
    def is_free(self) -> bool:
        """Nothing waits: there is room for what is not urgent."""
        return not self._waiting

    def send(self, message: AgentMessage) -> None:
        self._waiting.append(message)
        self._more.set()
        if len(self._waiting) > MOST_WAITING:
            self.close("the scheduler does not read what it is sent")

    def close(self, words: str) -> None:
        self._words = self._words or words
        if self._call is not None:
            self._call.cancel()

    async def run(self, take: Callable[[SchedulerMessage], None], *beside: Coroutine[Any, Any, None]) -> None:
        """Until it ends: then it raises Cut. What is done beside ends with it."""
        self._call = call(self.way.channel, "Attach", "Agents")(metadata=tuple(self.way.metadata))
        others = [asyncio.ensure_future(work) for work in (self._write(), *beside)]
        for other in others:
            other.add_done_callback(self._look_at)
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                take(message)
            raise self._ended(await self._call.code(), await self._call.details())
        except grpc.aio.AioRpcError as error:
            raise self._ended(error.code(), error.details()) from None
        except asyncio.CancelledError:
            if not self._words:
                raise
            raise Cut(self._words) from None
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            self._call.cancel()
            with suppress(Exception):
                await self.way.channel.close()

    def _look_at(self, other: asyncio.Future[None]) -> None:
        """Nothing that is done beside it may end unnoticed."""
        if not other.cancelled() and (error := other.exception()) and not isinstance(error, grpc.RpcError):
            log.error("the connection is given up", exc_info=error)
            self.close(f"something went wrong here: {error!r}")

    def _ended(self, code: grpc.StatusCode, details: str | None) -> Cut:
        words = self._words or details or code.name.lower().replace("_", " ")
        if code == grpc.StatusCode.UNAVAILABLE and not self._words:
            words = "the scheduler cannot be reached"
        return Cut(words, code.name if code in REFUSALS and not self._words else "")

    async def _write(self) -> None:
        while True:
            while self._waiting:
                await self._call.write(self._waiting[0])
                self._waiting.popleft()
            self._more.clear()
            await self._more.wait()


def cut_by(error: WeftError) -> Cut:
    """The scheduler could not even be asked."""
    refusal = "PERMISSION_DENIED" if isinstance(error, NotPermitted) else ""
    return Cut(str(error), refusal if not isinstance(error, Unreachable) else "")
