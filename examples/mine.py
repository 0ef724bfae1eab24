"""Smallest gang first."""

from dataclasses import dataclass

from weft.policy import JobView, Policy, Seconds


@dataclass(frozen=True)
class Mine(Policy):
    """Smallest gang first, without preemption."""

    backfill = True

    def key(self, job: JobView, now: Seconds) -> float:
        return float(job.gpus)
