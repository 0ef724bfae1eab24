"""The end of a worker's allocation: it leaves before, in time for its jobs to save their work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

CHANGE_S: Final = 15.0
"""The scheduler's word counts if it differs by more than this: the site may extend a time limit, or shorten it."""


class AllocationEnd:
    """Calls `leave` when it is time. `ends_at` is in seconds since 1970; None: no end is known."""

    def __init__(self, ends_at: float | None, save_s: float, leave: Callable[[], None]) -> None:
        self._leaves_at = None if ends_at is None else ends_at - save_s
        self._leave = leave
        self._timer: asyncio.TimerHandle | None = None

    @property
    def leaves_in_s(self) -> float | None:
        """The seconds until the worker leaves; None: it stays."""
        return None if self._leaves_at is None else max(self._leaves_at - time.time(), 0.0)

    def open(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (left_s := self.leaves_in_s) is not None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._leave)

    def follow(self, leaves_in_s: float) -> None:
        """Leave at another time, as the scheduler has learned it from the site."""
        known_s = self.leaves_in_s
        if known_s is None or abs(known_s - leaves_in_s) > CHANGE_S:
            self._leaves_at = time.time() + leaves_in_s
            self.open()
