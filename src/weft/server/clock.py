"""Time that never runs backwards, whatever happens to the clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """The wall's time when it was made, and then by a clock that neither jumps nor stops while a laptop sleeps."""

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
