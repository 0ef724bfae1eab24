"""QSSF (Helios, SC'21): quasi-shortest service first. GPU time is predicted from the user's jobs with similar names.

A name's stem is its letters: `bert-lr3-v2` and `bert-lr5-v1` are alike. If a user has no finished job with that stem,
all of the user's jobs count, then all jobs. No run is preempted; the first job that does not fit gets a reservation.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

from weft.core.ports import JobView, Policy
from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Seconds, Submitted
from weft.policy_state.holdings import Holdings


@dataclass
class History:
    """Mean duration of finished jobs by user and stem, by user, and of all jobs."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    holdings: Holdings = field(default_factory=Holdings)
    means: dict[Hashable, tuple[float, int]] = field(default_factory=dict)
    predicted: dict[JobId, float] = field(default_factory=dict)

    def predict(self, job: Job) -> float:
        for kind in _kinds(job):
            if kind in self.means:
                return self.means[kind][0] * max(job.gpus, 1)
        return job.declared_s * max(job.gpus, 1) if job.declared_s is not None else inf

    def learn(self, job: Job, seconds: float) -> None:
        for kind in _kinds(job):
            mean, count = self.means.get(kind, (0.0, 0))
            self.means[kind] = mean + (seconds - mean) / (count + 1), count + 1


@dataclass(frozen=True)
class Qssf(Policy):
    """Shortest predicted GPU time first, from the user's history; no preemption."""

    backfill = True

    def key_from(self, memo: History, job: JobView, now: Seconds) -> float:
        """Return the prediction made at submission."""
        return memo.predicted[job.id]

    def memo(self) -> History:
        return History()

    def observe(self, memo: History, fact: Fact) -> History:
        if isinstance(fact, Submitted | Edited | JobSnapshot):
            memo.jobs[fact.job.id] = fact.job
            memo.predicted[fact.job.id] = memo.predict(fact.job)
        memo.holdings.apply(fact)
        if isinstance(fact, Exited) and fact.how == "done":
            memo.learn(memo.jobs[fact.job], memo.holdings.spent_s.pop(fact.job, 0.0))
        return memo


def _kinds(job: Job) -> tuple[Hashable, ...]:
    """Return the groups of similar jobs, the most similar first."""
    name = job.name or (job.profile.model if job.profile else "")
    stem = "".join(letter for letter in name.lower() if letter.isalpha())
    return (job.user, stem, job.gpus), (job.user, stem), (job.user,), ()
