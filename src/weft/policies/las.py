"""LAS: least attained service first, service being time x GPUs; needs to know nothing of a job's length.

Continuous: two equal jobs take turns at every event. Tiresias keeps the idea and spares the turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Las(Policy):
    """Least attained service (time x GPUs) first."""

    preempts = True
    backfill = True

    def key(self, job: JobView, now: Seconds) -> float:
        return job.attained(now) * max(job.gpus, 1)

    def slope(self, job: JobView) -> float:
        return float(max(job.gpus, 1)) if job.active else 0.0
