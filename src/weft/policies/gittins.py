"""Gittins: the job most likely to finish soon for the service it would take, given the service it has had.

For a job that has attained a, the index is the largest over all d of P(S <= a + d | S > a) / E[min(S - a, d) | S > a]:
S is the service (time x GPUs) of jobs, of the log-normal distribution given or of those that have finished so far.
Attained service is looked at in steps of a quantum. Until enough have finished, the least served goes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

from weft.core.ports import Ask, JobView, Replanner, View
from weft.core.shapes import Shape
from weft.ledgers.service import SAMPLES, Service, gittins_index
from weft.model import Fact, Seconds

ENOUGH = 20


@dataclass(frozen=True)
class Gittins(Replanner):
    """Largest Gittins index first: likely to finish soon, given what it has had."""

    quantum: float = 3250.0
    """GPU-seconds between two looks at a job's index."""
    median: float | None = None
    """With `mean`: the log-normal distribution of GPU-seconds; none: learned from the jobs that finish."""
    mean: float | None = None

    preempts = True

    def __post_init__(self) -> None:
        if self.quantum <= 0:
            raise ValueError(f"quantum must be above 0, not {self.quantum}")
        if (self.median is None) != (self.mean is None):
            raise ValueError("median and mean go together")
        if self.median is not None and self.mean is not None and not 0 < self.median <= self.mean:
            raise ValueError(f"no log-normal has median {self.median} and mean {self.mean}")

    def key(self, job: JobView, now: Seconds) -> float:
        """For the eye only: without a distribution, the least served first."""
        return job.attained(now) * max(job.gpus, 1)

    def rank(self, view: View) -> Iterable[Ask]:
        memo: Service = view.memo
        ranked = [(-self._index(memo, self._level(job, view.now)), job.stamp, job) for job in _candidates(view)]
        ranked.sort(key=lambda entry: entry[:2])
        return [Ask((job.id,), job.gpus, job.wanted_share, job.job.where) for _, _, job in ranked]

    def _level(self, job: JobView, now: Seconds) -> int:
        return int(job.attained(now) * max(job.gpus, 1) / self.quantum)

    def _index(self, memo: Service, level: int) -> float:
        known = memo.indices.get(level)
        if known is None:
            samples = self._given() if self.median is not None else memo.finished
            known = gittins_index(samples, level * self.quantum) if len(samples) >= ENOUGH else -float(level)
            memo.indices[level] = known
        return known

    def _given(self) -> list[float]:
        """The distribution as equally likely samples."""
        assert self.median is not None
        assert self.mean is not None
        spread = NormalDist(log(self.median), sqrt(2 * log(self.mean / self.median)) or 1e-9)
        return [exp(spread.inv_cdf((k + 0.5) / SAMPLES)) for k in range(SAMPLES)]

    def memo(self) -> Service:
        return Service()

    def observe(self, memo: Service, fact: Fact) -> Service:
        if self.median is None:
            memo.note(fact)
        return memo


def _candidates(view: View) -> Iterator[JobView]:
    """Those that run, and of each shape and attained service as many as the cluster could hold, first come first."""
    yield from view.active
    seen: Counter[tuple[Shape, float]] = Counter()
    for job in sorted(view.waiting, key=lambda job: job.stamp):
        alike = (job.shape, job.attained(view.now))
        seen[alike] += 1
        if seen[alike] * job.gpus <= view.gpus:
            yield job
