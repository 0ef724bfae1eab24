"""A clock that never runs backwards."""

from __future__ import annotations

import time
from collections.abc import Callable


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """Starts at the wall time, at least `at_least`, and follows a clock that neither jumps nor stops during sleep."""

    def __init__(
        self,
        at_least: float = 0.0,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _since_boot,
    ) -> None:
        self._steady = steady
        self._offset = max(wall(), at_least) - steady()

    def now(self) -> float:
        return self._offset + self._steady()
