"""FIFO: first come, first served. A job that does not fit blocks later ones."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Fifo(Policy):
    """First come, first served."""

    backfill: bool = False
    """Start later jobs that do not delay the first job that does not fit (EASY)."""

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
