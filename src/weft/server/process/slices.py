"""Long work in slices: it is written as a generator of steps, and runs for a short time in each turn of the loop.

All slices of all requests queue for turns, first come, first served: a turn of the loop has one of them. Queries are
short, and queue for turns of their kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that pauses at each `yield`, and returns its result."""
SLICE_CPU_S: Final = 0.01
FREED_AT_ONCE: Final = 100
Kind = Literal["slice", "query"]
_QUEUES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Kind, asyncio.Lock]]] = WeakKeyDictionary()


@asynccontextmanager
async def own_turn(kind: Kind) -> AsyncIterator[None]:
    """Wait for a turn of the loop in which no other block of this kind runs."""
    loop = asyncio.get_running_loop()
    queue = _QUEUES.setdefault(loop, {}).setdefault(kind, asyncio.Lock())
    await queue.acquire()
    try:
        yield
    finally:
        loop.call_soon(queue.release)


async def in_slices(steps: Steps[T]) -> T:
    """Do the work, and let the loop do other things in between."""
    while True:
        async with own_turn("slice"):
            until = time.thread_time() + SLICE_CPU_S
            try:
                while time.thread_time() < until:
                    next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
        await asyncio.sleep(0)


def at_once(steps: Steps[T]) -> T:
    """Do the work without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def free(items: list[Any]) -> Steps[None]:
    """Empty a list. Freeing 50,000 jobs at once takes a quarter of a second."""
    while items:
        del items[-FREED_AT_ONCE:]
        yield
