"""SRTF: shortest remaining time first, preemptive (Muri's `shortest`)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Srtf(Policy):
    """Shortest remaining time first."""

    preempts = True
    backfill = True

    def key(self, job: JobView, now: Seconds) -> float:
        return job.remaining(now)

    def slope(self, job: JobView) -> float:
        return -job.rate
