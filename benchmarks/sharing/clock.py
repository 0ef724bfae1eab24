"""The clock of a pair of processes on one core: the CPU time of both, plus the time in which both sleep.

Other processes on the core stop both of the pair, so they do not move this clock. `read` is the CPU time of a process
from any other: the kernel has a clock for every pid.
"""

from __future__ import annotations

import time
from typing import Final

CPU_CLOCK: Final = 2
"""CPUCLOCK_SCHED of the kernel, for all threads of a process."""

SLICE_ASLEEP_S: Final = 0.0005
SLICE_AWAKE_S: Final = 0.002
"""The time between two looks at the other process. Each look interrupts it."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    return time.clock_gettime((~pid << 3) | CPU_CLOCK)


def is_asleep(pid: int) -> bool:
    """Return whether no thread of a process wants a CPU. Most of the time only the main thread exists."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
    return text[text.rfind(b")") + 2 : text.rfind(b")") + 3] == b"S"


class PairClock:
    """The clock of this process and another one; without another, of this process alone."""

    def __init__(self, other: int | None) -> None:
        self._other = other
        self._idle_s = self._own_s = 0.0
        self._zero = 0.0
        self._zero = self.now()

    def now(self) -> float:
        other = cpu_seconds(self._other) if self._other is not None else 0.0
        return time.process_time() + other + self._idle_s - self._own_s - self._zero

    def sleep_until(self, moment: float) -> None:
        """Wait until the clock shows this moment. The CPU time of the wait itself does not count."""
        while True:
            cpu = time.process_time()
            left = moment - self.now()
            if left <= 0:
                return
            if self._other is None:
                self._idle_s += left
                return
            # on one core the clock is never faster than the wall clock, so a sleep of `left` ends in time
            began, asleep = time.monotonic(), is_asleep(self._other)
            time.sleep(min(SLICE_ASLEEP_S if asleep else SLICE_AWAKE_S, left))
            if asleep and is_asleep(self._other):
                self._idle_s += time.monotonic() - began
            self._own_s += time.process_time() - cpu
