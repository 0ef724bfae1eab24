"""Tiresias (NSDI'19), discretised 2D-LAS (Muri's `dlas-gpu`): queues by attained service (time x GPUs).

A job starts in the first queue and moves down when it has attained a queue's threshold. Within a queue, running jobs
come first, then preempted jobs, then first come, first served: `scheduling.core.state.state` orders equal keys so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Tiresias(Policy):
    """Queues by attained service (time x GPUs); lower queues wait for higher ones."""

    thresholds: tuple[float, ...] = (3250.0, 7200.0)
    """GPU-seconds at which a job leaves each queue but the last."""
    tick_s: float = 1.0
    """Service counts in whole ticks, as in the original. A trace that is played faster needs a shorter one."""

    preempts = True
    backfill = True

    def __post_init__(self) -> None:
        if any(t <= 0 for t in self.thresholds) or list(self.thresholds) != sorted(set(self.thresholds)):
            raise ValueError(f"thresholds must be above 0 and rise, not {'+'.join(map(str, self.thresholds))}")
        if not self.tick_s > 0:
            raise ValueError(f"tick_s must be above 0, not {self.tick_s:g}")

    def key(self, job: JobView, now: Seconds) -> float:
        attained = job.attained(now) * max(job.gpus, 1)
        reached = sum(attained >= threshold for threshold in self.thresholds)
        return max(job.key or 0.0, float(reached))

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        queue = int(job.key or 0)
        if queue == len(self.thresholds):
            return None
        ticks = ceil(self.thresholds[queue] / max(job.gpus, 1) / self.tick_s)
        return now + ticks * self.tick_s - job.attained(now)
