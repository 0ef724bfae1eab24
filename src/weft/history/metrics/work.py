"""Work: how many solo seconds each job of a journal needed, as its runs show.

A run works from `Started` to its end, at the rate it reports. A run that was stopped keeps its work: it had time to
save. A run that failed or was lost keeps none, because the journal does not show what it saved. A simulated journal
shows both: its runs report what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from weft.model import (
    Edited,
    Exited,
    Fact,
    Job,
    JobId,
    JobSnapshot,
    Progressed,
    Purged,
    Rewoven,
    Seconds,
    Started,
    Submitted,
)
from weft.model.status import ENDED

OVERDUE_S: Final = 1.0
"""A job with no more than this left may have exceeded its estimate, which then tells nothing."""
TOLERANCE: Final = 1e-6


class JobWork:
    """The work of one job, in solo seconds."""

    __slots__ = ("declared_s", "kept_s", "left_s", "rate", "run_s", "since", "spent_s")

    def __init__(self, job: Job) -> None:
        self.kept_s = 0.0
        """Work that the next run need not repeat; of a job that is done, all its work."""
        self.run_s = 0.0
        """Work of the present run, up to `since`."""
        self.spent_s = 0.0
        """Work of all runs so far, repeated work included."""
        self.rate = 0.0
        self.since: Seconds = 0.0
        self.become(job)

    def become(self, job: Job) -> None:
        self.declared_s = self.left_s = declared_length_s(job)

    def settle(self, at: Seconds) -> None:
        done_s = self.rate * (at - self.since)
        self.since = at
        self.run_s += done_s
        self.spent_s += done_s
        if self.left_s is not None:
            self.left_s -= done_s

    def was_exact(self) -> bool:
        """Return whether the job was done when nothing was left of its declared length."""
        declared_s, left_s = self.declared_s, self.left_s
        return bool(declared_s) and left_s is not None and abs(left_s) <= TOLERANCE * (declared_s or 0.0)

    def keep_reported(self) -> bool:
        """Take the work done so far from the work left. Return False if that is not known."""
        if self.declared_s is None or self.left_s is None or self.left_s <= OVERDUE_S:
            return False
        self.kept_s, self.run_s = self.declared_s - self.left_s, 0.0
        return True


class WorkMeter:
    """Follows the facts of a journal. `total_s` has the work of each job that is done."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, JobWork] = {}
        self.total_s: dict[JobId, float] = {}
        self.simulated = False
        """The clock of a simulation begins at 0, that of a scheduler in 1970."""

    def follow(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts, each after it is counted."""
        first = True
        for fact in facts:
            if first:
                self.simulated, first = fact.at == 0.0, False
            count = _COUNTS.get(type(fact))
            if count is not None:
                count(self, fact)
            yield fact

    def submitted(self, fact: Submitted) -> None:
        self.jobs.setdefault(fact.job.id, JobWork(fact.job))

    def edited(self, fact: Edited) -> None:
        if (work := self.jobs.get(fact.job.id)) is not None:
            work.become(fact.job)

    def restored(self, fact: JobSnapshot) -> None:
        work = self.jobs[fact.job.id] = JobWork(fact.job)
        work.kept_s = work.spent_s = fact.attained_s
        if fact.usage is not None:
            work.kept_s, work.run_s, work.spent_s = fact.usage.kept_s, fact.usage.run_s, fact.usage.spent_s
        work.left_s, work.rate, work.since = fact.remaining_s, fact.rate, fact.rate_since
        if fact.status in ENDED:
            work.rate = 0.0
        if fact.status == "done":
            self.total_s[fact.job.id] = work.kept_s

    def started(self, fact: Started) -> None:
        work = self.jobs.get(fact.job)
        if work is None:
            return
        if self.simulated:  # the node of the run before may be lost
            work.keep_reported()
        work.run_s, work.rate, work.since = 0.0, fact.rate, fact.at

    def progressed(self, fact: Progressed) -> None:
        work = self.jobs.get(fact.job)
        if work is None:
            return
        work.settle(fact.at)
        work.rate = fact.rate
        if fact.remaining_s is not None:
            work.left_s = fact.remaining_s

    def rewoven(self, fact: Rewoven) -> None:
        """Forget the pace of a simulated run: it has other partners now, and reports its new pace if it has one."""
        work = self.jobs.get(fact.job)
        if work is not None and self.simulated:
            work.settle(fact.at)
            work.rate = 0.0

    def exited(self, fact: Exited) -> None:
        work = self.jobs.get(fact.job)
        if work is None:
            return
        paceless = work.rate == 0.0 and work.declared_s is not None
        work.settle(max(fact.at - fact.late_s, work.since) if fact.late_s else fact.at)
        work.rate = 0.0
        if fact.how == "done":
            self._finish(fact.job, work, paceless=paceless)
            return
        if fact.remaining_s is not None:
            work.left_s = fact.remaining_s
        if self.simulated and work.keep_reported():
            return
        if fact.how in ("stopped", "requeued"):
            work.kept_s += work.run_s
        work.run_s = 0.0

    def purged(self, fact: Purged) -> None:
        for job in fact.jobs:
            self.jobs.pop(job, None)
            self.total_s.pop(job, None)

    def _finish(self, job: JobId, work: JobWork, *, paceless: bool) -> None:
        """Count the work of a job that is done: its declared length if a simulation shows that it was exact.

        A run without a pace, by Muri's rules, does not show how much it did: all that was left.
        """
        work.kept_s += work.run_s
        work.run_s = 0.0
        if self.simulated and (paceless or work.was_exact()):
            work.kept_s = work.declared_s or 0.0
        self.total_s[job] = work.kept_s


def declared_length_s(job: Job) -> float | None:
    """Return the job's solo duration according to its declaration."""
    if job.iterations is not None and job.profile is not None:
        return job.iterations * job.profile.iteration_s
    return job.declared_s


_COUNTS: Final[dict[type, Callable[[WorkMeter, Any], None]]] = {
    Submitted: WorkMeter.submitted, Edited: WorkMeter.edited, JobSnapshot: WorkMeter.restored,
    Started: WorkMeter.started, Progressed: WorkMeter.progressed, Rewoven: WorkMeter.rewoven,
    Exited: WorkMeter.exited, Purged: WorkMeter.purged,
}  # fmt: skip
