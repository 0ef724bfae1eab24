"""Calls to the scheduler from the event loop: its client is synchronous, so threads make them, a limited number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from weft.errors import Refused

THREADS: Final = 8
MAX_WAITING: Final = 200
CACHE_S: Final = 0.7
"""Seconds for which pages that show the same get the same answer."""
MAX_CACHED: Final = 1000
T = TypeVar("T")


class Calls:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "calls")
        self._waiting = 0
        self._cache: dict[object, tuple[float, asyncio.Future[Any]]] = {}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Run in a thread. Refuse if too many calls wait already."""
        if self._waiting >= MAX_WAITING:
            raise Refused("too many requests at once\n  try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    async def shared(self, key: object, work: Callable[[], Awaitable[T]]) -> T:
        """Return the answer for this key; calls at the same time, and shortly after, share one."""
        now = time.monotonic()
        known = self._cache.get(key)
        if known is None or known[0] < now:
            for old in [each for each, (until, _) in self._cache.items() if until < now]:
                del self._cache[old]
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            future: asyncio.Future[Any] = asyncio.ensure_future(work())
            known = self._cache[key] = (now + CACHE_S, future)
            future.add_done_callback(lambda done: self._drop_failed(key, done))
        found: T = await asyncio.shield(known[1])
        return found

    def _drop_failed(self, key: object, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            known = self._cache.get(key)
            if known is not None and known[1] is done:
                del self._cache[key]

    def forget(self) -> None:
        """Drop all answers: something was changed."""
        self._cache.clear()
