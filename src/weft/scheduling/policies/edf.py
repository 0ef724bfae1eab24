"""EDF: earliest deadline first, preemptive."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Edf(Policy):
    """Earliest deadline first: the job's deadline, or a multiple of its declared duration after submission."""

    slack: float = 3.0
    """A job without a deadline is due this many times its declared duration after its submission."""

    preempts = True
    backfill = True

    def __post_init__(self) -> None:
        if self.slack < 1:
            raise ValueError(f"slack must be at least 1, not {self.slack:g}: no job is faster than alone")

    def key(self, job: JobView, now: Seconds) -> float:
        if job.job.deadline_at is not None:
            return job.job.deadline_at
        declared_s = job.job.declared_s
        return float("inf") if declared_s is None else job.submitted_at + self.slack * declared_s
