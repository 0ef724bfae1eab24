"""Due: earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass

from weft.policy import JobView, Policy, Seconds


@dataclass(frozen=True)
class Due(Policy):
    """Earliest deadline first: the job's `deadline_s`, or a multiple of its declared length after submission."""

    slack: float = 3.0
    """Without a named deadline, a job has this many times its declared length."""

    preempts = True
    backfill = True

    def __post_init__(self) -> None:
        if self.slack < 1:
            raise ValueError(f"slack must be at least 1, not {self.slack:g}: no job is faster than alone")

    def deadline(self, job: JobView) -> Seconds:
        """Return the deadline, or infinity for a job with neither a deadline nor a declared length."""
        named = dict(job.job.params).get("deadline_s")
        if named is not None:
            return job.submitted_at + float(named)
        declared_s = job.job.declared_s
        return float("inf") if declared_s is None else job.submitted_at + self.slack * declared_s

    def key(self, job: JobView, now: Seconds) -> float:
        return self.deadline(job)
