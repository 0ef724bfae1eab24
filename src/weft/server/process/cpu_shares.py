"""CPU shares: how much of the server's loop the requests of each user may take.

Each user has a token bucket of CPU seconds. Calls and slices of large requests are charged to it. While it is empty,
new calls of that user wait before they are read, and large requests pause; calls of other users do not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from types import coroutine
from typing import Any, Final, TypeVar

from weft.errors import Refused

T = TypeVar("T")
BURST_S: Final = 40.0
"""A full bucket holds what flows into it in this time."""
CALL_CPU_S: Final = 0.0003
"""The CPU time of a call outside of its method: reading, decoding, authentication."""
MAX_CALLS: Final = 64
"""Calls of one user that are read and answered at a time; their requests are in memory."""
MAX_STREAMS: Final = 500
"""Open streams of one user, or of one worker. Each fact wakes all those that watch, in one turn of the loop."""
MAX_POOL_STREAMS: Final = 10_000
"""Open streams of all workers of a pool, which share a token."""


class Account:
    """The bucket of one user."""

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self._share, self._clock = share, clock
        self._level_s, self._filled_at = share * BURST_S, clock()
        self.used_s = 0.0
        """CPU seconds charged so far."""
        self.waiting = 0
        """Calls that wait."""
        self._turn = asyncio.Lock()
        self._places = asyncio.Semaphore(MAX_CALLS)
        self._streams = 0

    def charge(self, cpu_s: float) -> None:
        self.used_s += cpu_s
        self._fill()
        self._level_s -= cpu_s

    def wait_s(self) -> float:
        """Return how long it takes until the bucket is not empty any more."""
        if not self._share:
            return 0.0
        self._fill()
        return max(-self._level_s / self._share, 0.0)

    def _fill(self) -> None:
        now = self._clock()
        self._level_s = min(self._level_s + (now - self._filled_at) * self._share, self._share * BURST_S)
        self._filled_at = now

    async def pause(self) -> None:
        """Wait while the bucket is empty."""
        while wait_s := self.wait_s():
            await asyncio.sleep(wait_s)

    async def enter(self) -> None:
        """Wait for a turn, first come, first served, then for a place among the calls being answered."""
        self.waiting += 1
        try:
            async with self._turn:
                await self.pause()
                await self._places.acquire()
        finally:
            self.waiting -= 1
        self.charge(CALL_CPU_S)

    def begin_stream(self, task: asyncio.Task[Any], limit: int = MAX_STREAMS) -> None:
        """Count a stream while its task lasts. Raise if there are too many."""
        if self._streams >= limit:
            raise Refused(
                f"{limit} streams of this caller are open already\n"
                "  end some of them; one weft wait or weft logs takes many jobs"
            )
        self._streams += 1
        task.add_done_callback(self._end_stream)

    def _end_stream(self, _task: asyncio.Task[Any]) -> None:
        self._streams -= 1

    def leave(self) -> None:
        """Give the place back."""
        self._places.release()


class CpuShares:
    """The accounts of all users. `share` is what each may use of a core on average; 0: no limit."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._clock = share, clock
        self.accounts: dict[str, Account] = {}

    def account(self, user: str) -> Account:
        found = self.accounts.get(user)
        if found is None:
            found = self.accounts[user] = Account(self._share, self._clock)
        return found


_PAYER: Final[ContextVar[Account | None]] = ContextVar("payer", default=None)


def payer() -> Account | None:
    """Return the account that pays for the present task."""
    return _PAYER.get()


def set_payer(account: Account) -> None:
    """Charge the rest of this task, and the tasks that it starts, to this account."""
    _PAYER.set(account)


async def pause_payer() -> None:
    """Wait while the bucket of the user who pays for this task is empty."""
    if (account := _PAYER.get()) is not None:
        await account.pause()


@coroutine
def metered(account: Account, work: Coroutine[Any, Any, T] | Awaitable[T]) -> Generator[Any, Any, T]:
    """Await this, and charge the CPU time of each of its steps."""
    steps: Any = work if hasattr(work, "send") else work.__await__()
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        began = time.thread_time()
        try:
            waits_for = resume(value)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            value = None  # an error that is raised again would refer to itself here, and keep the request alive
            account.charge(time.thread_time() - began)
        try:
            resume, value = steps.send, (yield waits_for)
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            resume, value = steps.throw, error


async def metered_stream(account: Account, replies: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield these replies, and charge the CPU time that it takes to make them."""
    try:
        while True:
            try:
                reply = await metered(account, anext(replies))
            except StopAsyncIteration:
                return
            yield reply
    finally:
        if isinstance(replies, AsyncGenerator):
            await replies.aclose()
