"""Tiresias (NSDI'19), discretised 2D-LAS (Muri's `dlas-gpu`): queues by attained service, time x GPUs.

A job starts in the first queue and goes down one whenever it has attained a queue's threshold. Within a queue those
running go on, then those put back, then first come, first served: equal keys, as `core.state.state` orders them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from weft.core.ports import JobView, Policy
from weft.model import Seconds

ROUNDING = 1e-6
"""A demotion falls on an instant computed from the threshold: do not miss it by a rounding error."""


@dataclass(frozen=True)
class Tiresias(Policy):
    """Queues by attained service (time x GPUs); lower queues wait for higher ones."""

    thresholds: tuple[float, ...] = (3250.0, 7200.0)
    """GPU-seconds at which a job leaves each queue but the last."""

    preempts = True
    backfill = True

    def __post_init__(self) -> None:
        if any(t <= 0 for t in self.thresholds) or list(self.thresholds) != sorted(set(self.thresholds)):
            raise ValueError(f"thresholds must be above 0 and rise, not {'+'.join(map(str, self.thresholds))}")

    def key(self, job: JobView, now: Seconds) -> float:
        attained = job.attained(now) * max(job.gpus, 1)
        return float(sum(attained >= threshold - ROUNDING for threshold in self.thresholds))

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        queue = int(job.key or 0)
        if queue == len(self.thresholds):
            return None
        # Service is looked at in whole seconds, as the original does.
        return now + ceil(self.thresholds[queue] / max(job.gpus, 1)) - job.attained(now)
