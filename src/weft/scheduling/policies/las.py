"""LAS: least attained service (time x GPUs) first. It does not need a job's duration.

It is continuous: two equal jobs alternate at every event. Tiresias avoids that with queues.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Las(Policy):
    """Least attained service (time x GPUs) first."""

    preempts = True
    backfill = True

    def key(self, job: JobView, now: Seconds) -> float:
        return job.attained(now) * max(job.gpus, 1)

    def slope(self, job: JobView) -> float:
        return float(max(job.gpus, 1)) if job.active else 0.0
