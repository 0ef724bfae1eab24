"""Gittins: first the job with the best chance to finish per further service, given its attained service.

For a job that has attained a, the index is the largest over all d of P(S <= a + d | S > a) / E[min(S - a, d) | S > a].
S is the service (time x GPUs) of jobs, from the given log-normal distribution or from the jobs finished so far.
Attained service counts in steps of a quantum. Until enough jobs have finished, the least served job goes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.model import Fact, Seconds
from weft.scheduling.core.ports import JobView, Policy
from weft.scheduling.policy_state.attained_service import MAX_SAMPLES, AttainedService, gittins_index, to_array

if TYPE_CHECKING:
    from weft.scheduling.policy_state.attained_service import Numbers

MIN_SAMPLES = 20


@dataclass(frozen=True)
class Gittins(Policy):
    """Largest Gittins index first: likely to finish soon, given its attained service."""

    quantum: float = 3250.0
    """GPU-seconds between two updates of a job's index."""
    median: float | None = None
    """With `mean`: the log-normal distribution of GPU-seconds; none: learned from the jobs that finish."""
    mean: float | None = None

    preempts = True
    backfill = True

    def __post_init__(self) -> None:
        if self.quantum <= 0:
            raise ValueError(f"quantum must be above 0, not {self.quantum}")
        if (self.median is None) != (self.mean is None):
            raise ValueError("median and mean go together")
        if self.median is not None and self.mean is not None and not 0 < self.median <= self.mean:
            raise ValueError(f"no log-normal has median {self.median} and mean {self.mean}")

    def key_from(self, memo: AttainedService, job: JobView, now: Seconds) -> float:
        """Return the inverse of the index: expected GPU-seconds per finished job."""
        level = int(job.attained(now) * max(job.gpus, 1) / self.quantum)
        known = memo.keys.get(level)
        if known is None:
            known = memo.keys[level] = self._key_at(level * self.quantum, memo)
        return known

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        """Return when the job will have attained another quantum."""
        gpus, attained = max(job.gpus, 1), job.attained(now)
        return now + (int(attained * gpus / self.quantum) + 1) * self.quantum / gpus - attained

    def epoch(self, memo: AttainedService) -> int:
        return memo.epoch

    def _key_at(self, attained: float, memo: AttainedService) -> float:
        samples = self._given_samples if self.median is not None else memo.sample
        if len(samples) < MIN_SAMPLES:
            return attained
        index = gittins_index(samples, attained)
        return 1 / index if index else inf

    @cached_property
    def _given_samples(self) -> Numbers:
        """The given distribution as equally likely samples."""
        assert self.median is not None
        assert self.mean is not None
        spread = NormalDist(log(self.median), sqrt(2 * log(self.mean / self.median)) or 1e-9)
        return to_array([exp(spread.inv_cdf((k + 0.5) / MAX_SAMPLES)) for k in range(MAX_SAMPLES)])

    def memo(self) -> AttainedService:
        return AttainedService()

    def observe(self, memo: AttainedService, fact: Fact) -> AttainedService:
        if self.median is None:
            memo.apply(fact)
        return memo
