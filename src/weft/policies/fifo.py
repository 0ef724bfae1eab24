"""FIFO: first come, first served; whoever does not fit holds up those behind."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Fifo(Policy):
    """First come, first served."""

    backfill: bool = False
    """Let those pass who do not delay the first that does not fit (EASY)."""

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
