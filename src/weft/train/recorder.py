"""The recorder: how long the stages of each step take, what the job needs of its device, and when it began to work.

It reports them with the progress of the job, under the key `stages`.
"""

from __future__ import annotations

import os
import time

from weft.train.device import this_device
from weft.train.fetches import Fetches
from weft.train.ranks import this_rank
from weft.train.reporting import reporter

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from weft.train.fetches import FetchCounters

WARM_UP_STEPS: Final = 10
"""The first steps, which are slower, do not count once there are more."""
MAX_STEPS: Final = 256
"""Steps of which the times are kept: the latest."""
REPORT_S: Final = 1.0
KINDS: Final = ("data", "gpu", "net", "wait", "turn", "step")
"""Stages; waiting for a batch; waiting for turns; the whole step."""


class Recorder:
    """The times of the steps of this process."""

    def __init__(self) -> None:
        self._steps: list[dict[str, float]] = []
        self._count = 0
        self._now: dict[str, float] = {}
        self._began = time.perf_counter()
        self._has_begun = False
        self._first_step_s: float | None = None
        self._report_at = 0.0
        self._counters: FetchCounters | None = None
        self._loaders: set[int] = set()
        """Processes that load batches for training. Those of an evaluation are others, or count nothing."""
        self._fetched = Fetches()
        """The fetches before the first step that counts."""
        self.batches = 0
        self.workers = 0
        self.is_paused = False
        """True during an evaluation, which is no part of a step."""
        self.is_separate = False
        """True if the network time is not part of the GPU time: the reduction of gradients is a stage."""

    def add(self, kind: str, seconds: float) -> None:
        if not self.is_paused:
            self._now[kind] = self._now.get(kind, 0.0) + seconds

    def get_batch(self, counters: FetchCounters, workers: Sequence[int]) -> None:
        """Count a batch for training, which this process loaded itself unless the loader has workers."""
        self.batches += 1
        self._counters, self.workers = counters, len(workers)
        self._loaders.update(workers or (os.getpid(),))

    def _fetches(self) -> Fetches:
        return Fetches() if self._counters is None else self._counters.total(self._loaders)

    def end_step(self, *, at_begin: bool = False) -> None:
        """End a step. With `at_begin`, the next one has just begun; the first call then ends none."""
        if at_begin and not self._has_begun:
            self._has_begun, self._began = True, time.perf_counter()
            return
        now = time.perf_counter()
        self._now["step"] = now - self._began
        self._began = now
        self._steps.append(self._now)
        self._now = {}
        self._count += 1
        if self._first_step_s is None:
            import atexit

            self._first_step_s = process_age_s()
            reporter()  # first, so that its last report is sent after the following one is made
            atexit.register(self._report)
        if self._count == WARM_UP_STEPS:
            self._fetched = self._fetches()
        if len(self._steps) > 2 * MAX_STEPS:
            del self._steps[:-MAX_STEPS]
        if now >= self._report_at:
            self._report_at = now + REPORT_S
            self._report()

    def _report(self) -> None:
        if this_rank() == 0:  # the other ranks have the same job and run
            reporter().update_stages(self.summary)

    def summary(self) -> dict[str, Any]:
        """Return the figures so far. Times are medians of steps, in seconds; `p90` has their 90 % quantiles."""
        steps = self._steps[-MAX_STEPS:]
        if self._count > WARM_UP_STEPS:
            steps = steps[-(self._count - WARM_UP_STEPS) :]
        times = {kind: sorted(step.get(kind, 0.0) for step in steps) for kind in KINDS}
        found: dict[str, Any] = {f"{kind}_s": _quantile(values, 0.5) for kind, values in times.items()}
        found["p90"] = {f"{kind}_s": _quantile(values, 0.9) for kind, values in times.items()}
        found |= {"steps": self._count, "first_step_s": self._first_step_s, "separate_net": self.is_separate}
        found |= {"memory_mb": this_device().memory_mb(), "rss_mb": peak_rss_mb(), "workers": self.workers}
        return found | self._fetch_times(found)

    def _fetch_times(self, found: dict[str, Any]) -> dict[str, float]:
        """Return the times of a step's fetches. The data stage of a step is their time divided by the workers."""
        if self._counters is None:
            return {}
        now, before = self._fetches(), self._fetched
        if now.fetches == before.fetches:
            before = Fetches()
        # workers load ahead of the steps, so count by fetch, and then by batches of a step
        part = self.batches / max(self._count, 1) / max(now.fetches - before.fetches, 1)
        wall_s, cpu_s = (now.wall_s - before.wall_s) * part, (now.cpu_s - before.cpu_s) * part
        data_s = round(wall_s / self.workers, 6) if self.workers else found["data_s"]
        return {"fetch_s": round(wall_s, 6), "fetch_cpu_s": round(cpu_s, 6), "data_s": data_s}


def _quantile(values: Sequence[float], part: float) -> float:
    return round(values[min(int(len(values) * part), len(values) - 1)], 6) if values else 0.0


def process_age_s() -> float:
    """Return how long ago this process was started; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/stat") as stat:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
        return round(max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0), 3)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def peak_rss_mb() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
