"""Jobs that may not wait yet: some other job, or all of a batch, must be done first, their batch has enough going, or
it is too soon to try again.

A gate opens by itself: when the last job that one comes after is done, when another of its batch has ended or is
held, or when the time has come. Who is held takes no place in its batch: once released, it stands in line again, by
its turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from weft.core.state.job import JobState
from weft.core.state.quotas import Quotas
from weft.model import JobId, Seconds
from weft.model.status import ENDED

NEVER: Final = float("inf")


class Eligibility:
    def __init__(self, jobs: Mapping[JobId, JobState]) -> None:
        self._jobs = jobs
        self.quotas = Quotas(jobs)
        self.limits = self.quotas.limits
        """How many GPUs users may hold; empty where nobody is limited."""
        self._followers: dict[JobId, dict[JobId, None]] = {}
        """Who comes after each job, or each batch."""
        self._undone: dict[str, int] = {}
        """Of each batch, how many have not ended done."""
        self._ill: dict[str, int] = {}
        """How many of these have ended."""
        self._going: dict[str, dict[JobId, None]] = {}
        """Of each batch, those that wait or run."""
        self._queued: dict[str, list[tuple[int, JobId]]] = {}
        """Of each batch, a heap of those that must wait for one of these to end, and of some that no longer do."""
        self._later: list[tuple[Seconds, JobId]] = []
        """A heap of those that must wait for a time to come, and of some that no longer do."""
        self.opens_at: Seconds = NEVER
        """No gate opens by the clock before this."""

    def meet(self, job: JobState) -> None:
        """A job that is new here, or was here before."""
        batch = job.job.batch
        if batch and job.status != "done":
            _count(self._undone, batch, 1)
            if job.status in ENDED:
                _count(self._ill, batch, 1)

    def forget(self, job: JobState) -> None:
        """One that has ended."""
        if job.job.batch and job.status != "done":
            _count(self._undone, job.job.batch, -1)
            _count(self._ill, job.job.batch, -1)

    def enter(self, job: JobState) -> bool:
        """Whether this job may wait for GPUs at once; if not, `leave` of another will let it."""
        for other in job.job.after:
            if self._is_undone(other) and other != job.job.batch:
                self._followers.setdefault(other, {})[job.id] = None
                job.unmet_dependencies[other] = None
        return not job.unmet_dependencies and self.join_batch(job)

    def recall(self, job: JobState) -> None:
        """A job that was here before: it stands where it stood."""
        self.meet(job)
        for other in job.unmet_dependencies:
            self._followers.setdefault(other, {})[job.id] = None
        delayed = _is_delayed(job)
        if delayed:
            self.delay(job)
        if job.over_quota or delayed or job.status not in ("blocked", "held", *ENDED):
            self.quotas.recall(job)
        batch = job.job.batch
        if not batch or not job.job.batch_limit or job.unmet_dependencies or job.status in ENDED:
            return
        if job.status == "blocked" and not delayed and not job.over_quota:
            self._line_up(job)
        elif job.status != "held":
            self._going.setdefault(batch, {})[job.id] = None

    def matters(self, job: JobId) -> bool:
        """Whether anybody comes after it."""
        return job in self._followers

    def doomed(self, job: JobState) -> JobId | None:
        """What it comes after and that ended otherwise than done."""
        return next((other for other in job.unmet_dependencies if self._is_ill(other)), None)

    def _is_undone(self, name: str) -> bool:
        job = self._jobs.get(name)
        return job.status != "done" if job is not None else name in self._undone

    def _is_ill(self, name: str) -> bool:
        job = self._jobs.get(name)
        return job.status in ENDED if job is not None else name in self._ill

    def leave(self, job: JobState) -> Iterator[JobState]:
        """A job has ended, or is to be looked at anew: those who may wait now, or are doomed by it."""
        for other in job.unmet_dependencies:
            followers = self._followers.get(other, {})
            followers.pop(job.id, None)
            if not followers:
                self._followers.pop(other, None)
        job.unmet_dependencies.clear()
        yield from self.step_aside(job)
        if job.status not in ENDED:
            return
        done, batch = job.status == "done", job.job.batch
        yield from self._tell(job.id, done)
        if not batch:
            return
        _count(self._undone if done else self._ill, batch, -1 if done else 1)
        if not done or batch not in self._undone:
            yield from self._tell(batch, done)

    def _tell(self, other: str, done: bool) -> Iterator[JobState]:
        """Those who come after a job or a batch: who may wait now, or is doomed."""
        for name in self._followers.pop(other, ()):
            follower = self._jobs[name]
            if done:
                del follower.unmet_dependencies[other]
                if not follower.unmet_dependencies and self.join_batch(follower):
                    yield follower
            elif follower.status not in ENDED:
                yield follower

    def join_batch(self, job: JobState) -> bool:
        """Whether its batch has a place for it, and its user GPUs left; else it stands in line. Who is held needs
        none."""
        return self._take_place(job) and (job.held or self.quotas.take(job))

    def limit(self, user: str, gpus: int | None) -> tuple[list[JobState], list[JobState]]:
        """Who may wait now, and who no longer may."""
        return self.quotas.limit(user, gpus)

    def _take_place(self, job: JobState) -> bool:
        batch, limit = job.job.batch, job.job.batch_limit
        if not batch or not limit or job.held:
            return True
        going = self._going.setdefault(batch, {})
        if len(going) < limit:
            going[job.id] = None
            return True
        self._line_up(job)
        return False

    def _line_up(self, job: JobState) -> None:
        heappush(self._queued.setdefault(job.job.batch, []), (job.seq, job.id))

    def step_aside(self, job: JobState) -> Iterator[JobState]:
        """It no longer needs its place in its batch, nor GPUs of its user: who has them now."""
        yield from self.quotas.leave(job)
        going = self._going.get(job.job.batch)
        if not going or going.pop(job.id, job) is job:
            return
        queued = self._queued.get(job.job.batch)
        while queued:
            follower = self._jobs.get(heappop(queued)[1])
            if follower is not None and _is_in_line(follower):
                going[follower.id] = None
                if self.quotas.take(follower):
                    yield follower
                return

    # ---- the clock

    def delay(self, job: JobState) -> None:
        """It keeps its place in its batch: what it lacks now, others of the batch would lack too."""
        assert job.begin_at is not None
        heappush(self._later, (job.begin_at, job.id))
        self.opens_at = min(self.opens_at, job.begin_at)

    def next_opening(self) -> Seconds | None:
        """When the clock opens the next gate."""
        while self._later and self._delayed(*self._later[0]) is None:
            heappop(self._later)
        self.opens_at = self._later[0][0] if self._later else NEVER
        return self._later[0][0] if self._later else None

    def come(self, now: Seconds) -> Iterator[JobState]:
        """Those whose time has come."""
        while self._later and self._later[0][0] <= now:
            job = self._delayed(*heappop(self._later))
            if job is not None:
                job.begin_at = None
                yield job
        self.next_opening()

    def _delayed(self, begin_at: Seconds, name: JobId) -> JobState | None:
        job = self._jobs.get(name)
        return job if job is not None and job.begin_at == begin_at and _is_delayed(job) else None


def _is_delayed(job: JobState) -> bool:
    return job.status == "blocked" and job.begin_at is not None


def _is_in_line(job: JobState) -> bool:
    """Whether only its batch keeps it."""
    return job.status == "blocked" and not job.unmet_dependencies and job.begin_at is None and not job.over_quota


def _count(counts: dict[str, int], batch: str, change: int) -> None:
    count = counts.get(batch, 0) + change
    if count:
        counts[batch] = count
    else:
        del counts[batch]
