"""FIFO: first come, first served; whoever does not fit holds up those behind."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Fifo(Policy):
    """First come, first served."""

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
