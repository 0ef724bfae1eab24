"""Calls of Join, the one method without a token: few are read at a time, and each of them for a short time only."""

from __future__ import annotations

import asyncio
from typing import Final

from weft.errors import Refused

MAX_OPEN: Final = 1000
MAX_READ: Final = 16
"""Calls whose messages are in memory."""
TIMEOUT_S: Final = 10.0
"""A call whose message takes longer than this ends without an answer."""


class Joins:
    """The open calls. They are read first come, first served."""

    def __init__(self) -> None:
        self._open, self._places = 0, asyncio.Semaphore(MAX_READ)

    async def enter(self) -> None:
        """Wait for a place, which the call keeps until its task ends. Raise if too many wait."""
        task = asyncio.current_task()
        if task is None:
            return
        if self._open >= MAX_OPEN:
            raise Refused(f"{MAX_OPEN:,} callers join at this moment\n  try again later")
        self._open += 1
        task.add_done_callback(self._close)
        await self._places.acquire()
        deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, task.cancel)
        task.add_done_callback(lambda _: deadline.cancel())
        task.add_done_callback(lambda _: self._places.release())

    def _close(self, _: asyncio.Task[object]) -> None:
        self._open -= 1
