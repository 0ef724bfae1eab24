"""SJF: shortest job first, by declared duration, without preemption."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Sjf(Policy):
    """Shortest job first, without preemption."""

    backfill: bool = False
    """Start later jobs that do not delay the first job that does not fit (EASY)."""

    def key(self, job: JobView, now: Seconds) -> float:
        return job.remaining(now)
