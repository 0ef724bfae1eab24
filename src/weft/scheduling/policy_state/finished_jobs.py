"""Jobs that are done, with the time for which their runs held GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Submitted
from weft.scheduling.policy_state.holdings import Holdings


@dataclass
class FinishedJobs:
    _jobs: dict[JobId, Job] = field(default_factory=dict)
    """Jobs that are not done."""
    _holdings: Holdings = field(default_factory=Holdings)

    def apply(self, fact: Fact) -> tuple[Job, float] | None:
        """Apply a fact. If it says that a job is done, return the job and the seconds that its runs took."""
        if isinstance(fact, Submitted | Edited):
            self._jobs[fact.job.id] = fact.job
        elif isinstance(fact, JobSnapshot):
            if fact.status == "done":
                return fact.job, fact.attained_s
            self._jobs[fact.job.id] = fact.job
        self._holdings.apply(fact)
        if not isinstance(fact, Exited) or fact.how != "done":
            return None
        job, seconds = self._jobs.pop(fact.job, None), self._holdings.spent_s.pop(fact.job, 0.0)
        return None if job is None else (job, seconds)
