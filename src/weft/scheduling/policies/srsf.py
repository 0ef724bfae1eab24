"""SRSF: shortest remaining service (time x GPUs) first, preemptive (Muri's `shortest-gpu`)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Srsf(Policy):
    """Shortest remaining service (time x GPUs) first."""

    preempts = True
    backfill = True

    def key(self, job: JobView, now: Seconds) -> float:
        return job.remaining(now) * (job.gpus or 1)

    def slope(self, job: JobView) -> float:
        return -job.rate * (job.gpus or 1)
