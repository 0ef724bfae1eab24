"""QSSF (Helios, SC'21): quasi-shortest service first. GPU time is predicted from the user's jobs with similar names.

If a user has no finished job with a similar name, all of the user's jobs count, then all jobs. No run is preempted; the
first job that does not fit gets a reservation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from weft.model import Edited, Fact, Job, JobId, JobSnapshot, Seconds, Submitted
from weft.scheduling.core.ports import JobView, Policy
from weft.scheduling.core.state.durations import Durations
from weft.scheduling.policy_state.finished_jobs import FinishedJobs


@dataclass
class History:
    """Durations of finished jobs, and the predictions made from them."""

    finished: FinishedJobs = field(default_factory=FinishedJobs)
    durations: Durations = field(default_factory=Durations)
    predicted: dict[JobId, float] = field(default_factory=dict)
    """GPU seconds of each job, as of its submission."""

    def predict(self, job: Job) -> float:
        found = self.durations.nearest(job)
        seconds = found.mean_s if found is not None else job.declared_s
        return inf if seconds is None else seconds * max(job.gpus, 1)


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
            memo.predicted[fact.job.id] = memo.predict(fact.job)
        done = memo.finished.apply(fact)
        if done is not None:
            memo.durations.learn(*done)
        return memo
