"""Eligibility: which submitted jobs may wait for GPUs. A job is blocked while a dependency is not done, its batch,
its user or its group has no place left, or its begin time has not come.

A job becomes eligible when its last dependency is done, when another job of its batch ends or is held, or at its begin
time. A held job takes no place in its batch; once released, it queues for one again in its old order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, Literal

from weft.model import JobId, Seconds
from weft.model.status import ENDED
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.quotas import GroupLimits, Quotas

NEVER: Final = float("inf")


class Eligibility:
    def __init__(self, jobs: Mapping[JobId, JobState]) -> None:
        self._jobs = jobs
        self.quotas = Quotas(jobs)
        self.limits = self.quotas.limits
        """GPU quotas of users; empty: no limits."""
        self.groups = GroupLimits(jobs)
        self._followers: dict[JobId, dict[JobId, None]] = {}
        """The jobs that wait for each job or batch to be done."""
        self._end_followers: dict[JobId, dict[JobId, None]] = {}
        """The jobs that wait for each job or batch to end, in any way or otherwise than done."""
        self._undone: dict[str, int] = {}
        """For each batch, how many jobs have not ended done."""
        self._failed: dict[str, int] = {}
        """For each batch, how many jobs ended otherwise than done."""
        self._cancelled: dict[str, int] = {}
        """For each batch, how many of those were cancelled."""
        self._done: dict[str, int] = {}
        """For each batch, how many jobs are done."""
        self._admitted: dict[str, dict[JobId, None]] = {}
        """For each batch, the jobs that hold one of its places: they wait or run."""
        self._queued: dict[str, list[tuple[int, JobId]]] = {}
        """For each batch, a heap of the jobs that queue for a place; it may hold jobs that no longer do."""
        self._begin_heap: list[tuple[Seconds, JobId]] = []
        """A heap of the jobs with a begin time; it may hold jobs that no longer wait for it."""
        self.opens_at: Seconds = NEVER
        """No job becomes eligible by the clock before this."""

    def register(self, job: JobState) -> None:
        """Register a job, new or restored."""
        batch = job.job.batch
        if batch and job.status == "done":
            _count(self._done, batch, 1)
        elif batch:
            _count(self._undone, batch, 1)
            if job.status in ENDED:
                _count(self._failed, batch, 1)
            if job.status == "cancelled":
                _count(self._cancelled, batch, 1)

    def ended_of(self, batch: str) -> tuple[int, int, int]:
        """Return how many jobs of a batch are done, have failed, and were cancelled."""
        cancelled = self._cancelled.get(batch, 0)
        return self._done.get(batch, 0), self._failed.get(batch, 0) - cancelled, cancelled

    @property
    def has_batches(self) -> bool:
        """Return whether any unfinished job belongs to a batch."""
        return bool(self._undone)

    def forget(self, job: JobState) -> None:
        """Forget a job that has ended."""
        batch = job.job.batch
        if batch and job.status == "done":
            _count(self._done, batch, -1)
        elif batch:
            _count(self._undone, batch, -1)
            _count(self._failed, batch, -1)
            if job.status == "cancelled":
                _count(self._cancelled, batch, -1)

    def enter(self, job: JobState) -> bool:
        """Return whether this job may wait for GPUs now; if not, the `leave` of another job makes it eligible."""
        spec = job.job
        for other in spec.after:
            if self._is_undone(other) and other != spec.batch:
                self._follow(job, other)
        for other in spec.after_any:
            if not self.has_ended(other) and other != spec.batch:
                self._follow(job, other)
        for other in spec.after_failed:
            if not (self.has_ended(other) and self._is_undone(other)) and other != spec.batch:
                self._follow(job, other)
        return not job.unmet_dependencies and self.join_batch(job)

    def _follow(self, job: JobState, other: JobId) -> None:
        job.unmet_dependencies[other] = None
        self._followers_of(job, other).setdefault(other, {})[job.id] = None

    def _followers_of(self, job: JobState, other: JobId) -> dict[JobId, dict[JobId, None]]:
        """Return the index in which the job waits for another: by condition, done or ended."""
        return self._followers if condition_of(job, other) == "done" else self._end_followers

    def restore(self, job: JobState) -> None:
        """Restore a job at its old place in line."""
        self.register(job)
        for other in job.unmet_dependencies:
            self._follow(job, other)
        delayed = _is_delayed(job)
        if delayed:
            self.delay(job)
            if job.before_begin:
                return
        counts = delayed or job.over_group_limit or job.status not in ("blocked", "held", *ENDED)
        if counts or job.over_quota:
            self.quotas.restore(job)
        if counts:
            self.groups.restore(job)
        batch = job.job.batch
        if not batch or not job.job.batch_limit or job.unmet_dependencies or job.status in ENDED:
            return
        if job.status == "blocked" and not delayed and not job.over_quota and not job.over_group_limit:
            self._queue_for_place(job)
        elif job.status != "held":
            self._admitted.setdefault(batch, {})[job.id] = None

    def concerns(self, job: JobState) -> bool:
        """Return whether the end of this job may make another eligible: a dependent, or one with the same limit."""
        return self.limited or job.id in self._followers or job.id in self._end_followers

    @property
    def limited(self) -> bool:
        """Return whether any user or group has a limit."""
        return bool(self.limits or self.groups.limits)

    def has_room_like(self, job: JobState) -> bool:
        """Return whether the limits of the job's user and group have room for one more job like it."""
        return self.quotas.has_room(job) and self.groups.has_room(job)

    def doomed(self, job: JobState) -> JobId | None:
        """Return the first dependency that can no longer be met; None if there is none."""
        return next((other for other in job.unmet_dependencies if self._dooms(job, other)), None)

    def _dooms(self, job: JobState, other: JobId) -> bool:
        condition = condition_of(job, other)
        if condition == "done":
            return self._ended_undone(other)
        return condition == "failed" and not self._is_undone(other)

    def _is_undone(self, name: str) -> bool:
        job = self._jobs.get(name)
        return job.status != "done" if job is not None else name in self._undone

    def has_ended(self, name: str) -> bool:
        """Return whether a job, or every job of a batch, has ended."""
        job = self._jobs.get(name)
        return job.status in ENDED if job is not None else self._undone.get(name, 0) == self._failed.get(name, 0)

    def _ended_undone(self, name: str) -> bool:
        job = self._jobs.get(name)
        return job.status in ENDED if job is not None else name in self._failed

    def leave(self, job: JobState) -> Iterator[JobState]:
        """Remove a job that ended or must be checked again; yield the jobs that may wait now or are doomed by it."""
        for other in job.unmet_dependencies:
            kind = self._followers_of(job, other)
            followers = kind.get(other, {})
            followers.pop(job.id, None)
            if not followers:
                kind.pop(other, None)
        job.unmet_dependencies.clear()
        yield from self.free_place(job)
        if job.status not in ENDED:
            return
        done, batch = job.status == "done", job.job.batch
        yield from self._update_dependents(job.id, done)
        yield from self._update_end_dependents(job.id, done)
        if not batch:
            return
        _count(self._undone if done else self._failed, batch, -1 if done else 1)
        if done:
            _count(self._done, batch, 1)
        elif job.status == "cancelled":
            _count(self._cancelled, batch, 1)
        if not done or batch not in self._undone:
            yield from self._update_dependents(batch, done)
        if self.has_ended(batch):
            yield from self._update_end_dependents(batch, batch not in self._undone)

    def _update_dependents(self, other: str, done: bool) -> Iterator[JobState]:
        """Yield the dependents of a job or batch: the ones that may wait now, and the ones it dooms."""
        for name in self._followers.pop(other, ()):
            follower = self._jobs[name]
            if done:
                del follower.unmet_dependencies[other]
                if not follower.unmet_dependencies and self.join_batch(follower):
                    yield follower
            elif follower.status not in ENDED:
                yield follower

    def _update_end_dependents(self, other: str, done: bool) -> Iterator[JobState]:
        """Yield the dependents of a job or batch that has ended: the ones that may wait now, and the ones it dooms."""
        for name in self._end_followers.pop(other, ()):
            follower = self._jobs[name]
            if done and condition_of(follower, other) == "failed":
                if follower.status not in ENDED:
                    yield follower
                continue
            del follower.unmet_dependencies[other]
            if not follower.unmet_dependencies and self.join_batch(follower):
                yield follower

    def join_batch(self, job: JobState) -> bool:
        """Return whether the batch has a place and the quota has room for the job; otherwise queue it. A held job
        needs no place."""
        return self._take_place(job) and (job.held or self._take_limits(job))

    def _take_limits(self, job: JobState) -> bool:
        """Return whether the limits of the job's user and group have room. A job over its group's limit keeps its part
        of the quota: it delays only jobs of its user."""
        return self.quotas.take(job) and self.groups.take(job)

    def limit(self, user: str, gpus: int | None) -> tuple[list[JobState], list[JobState]]:
        """Change a quota; return the jobs that may wait now, and the ones that no longer may."""
        opened, closed = self.quotas.limit(user, gpus)
        opened = [job for job in opened if self.groups.take(job)]
        for job in closed:
            opened += self.groups.leave(job)
        return opened, closed

    def limit_batch(self, batch: str, tasks: Sequence[JobState]) -> tuple[list[JobState], list[JobState]]:
        """Apply the new limit of a batch; return the jobs that may wait now, and the ones that no longer may."""
        in_line = sorted((job for job in tasks if _is_in_line(job)), key=_submission_number)
        waiting = sorted((job for job in tasks if job.waits), key=_submission_number)
        self._queued.pop(batch, None)
        self._admitted[batch] = {job.id: None for job in tasks if _keeps_place(job)}
        opened: list[JobState] = []
        closed: list[JobState] = []
        for job in (*waiting, *in_line):
            if self._take_place(job):
                if not job.waits and self._take_limits(job):
                    opened.append(job)
            elif job.waits:
                closed.append(job)
        for job in closed:
            opened += self._leave_limits(job)
        return opened, closed

    def _leave_limits(self, job: JobState) -> Iterator[JobState]:
        yield from self.groups.leave(job)
        yield from (follower for follower in self.quotas.leave(job) if self.groups.take(follower))

    def _take_place(self, job: JobState) -> bool:
        batch, limit = job.job.batch, job.job.batch_limit
        if not batch or not limit or job.held:
            return True
        admitted = self._admitted.setdefault(batch, {})
        if len(admitted) < limit:
            admitted[job.id] = None
            return True
        self._queue_for_place(job)
        return False

    def _queue_for_place(self, job: JobState) -> None:
        heappush(self._queued.setdefault(job.job.batch, []), (job.seq, job.id))

    def free_place(self, job: JobState) -> Iterator[JobState]:
        """Free the job's place in its batch and its GPUs in the quota; yield the jobs that get them."""
        yield from self._leave_limits(job)
        admitted = self._admitted.get(job.job.batch)
        if not admitted or admitted.pop(job.id, job) is job:
            return
        queued = self._queued.get(job.job.batch)
        while queued:
            follower = self._jobs.get(queued[0][1])
            if follower is None or not _is_in_line(follower):
                heappop(queued)
                continue
            if len(admitted) < follower.job.batch_limit:  # it may have been lowered
                heappop(queued)
                admitted[follower.id] = None
                if self._take_limits(follower):
                    yield follower
            return

    # ---- the clock

    def delay(self, job: JobState) -> None:
        """Block the job until `begin_at`. Between two runs it keeps its place: others of the batch have to wait too."""
        assert job.begin_at is not None
        heappush(self._begin_heap, (job.begin_at, job.id))
        self.opens_at = min(self.opens_at, job.begin_at)

    def next_opening(self) -> Seconds | None:
        """Return when the next job becomes eligible by the clock."""
        while self._begin_heap and self._delayed(*self._begin_heap[0]) is None:
            heappop(self._begin_heap)
        self.opens_at = self._begin_heap[0][0] if self._begin_heap else NEVER
        return self._begin_heap[0][0] if self._begin_heap else None

    def pop_due(self, now: Seconds) -> Iterator[JobState]:
        """Yield the jobs whose begin time has come. The caller clears it."""
        while self._begin_heap and self._begin_heap[0][0] <= now:
            job = self._delayed(*heappop(self._begin_heap))
            if job is not None:
                yield job
        self.next_opening()

    def _delayed(self, begin_at: Seconds, name: JobId) -> JobState | None:
        job = self._jobs.get(name)
        return job if job is not None and job.begin_at == begin_at and _is_delayed(job) else None


def condition_of(job: JobState, other: JobId) -> Literal["done", "ended", "failed"]:
    """Return how another job or batch must end for this job to become eligible."""
    spec = job.job
    if not spec.after_any and not spec.after_failed:
        return "done"
    return "failed" if other in spec.after_failed else "ended" if other in spec.after_any else "done"


def _is_delayed(job: JobState) -> bool:
    return job.status == "blocked" and job.begin_at is not None


def _is_in_line(job: JobState) -> bool:
    """Return whether only the batch limit blocks the job."""
    over = job.over_quota or job.over_group_limit
    return job.status == "blocked" and not job.unmet_dependencies and job.begin_at is None and not over


def _keeps_place(job: JobState) -> bool:
    """Return whether the job holds its place in the batch whatever the limit becomes: it runs, or will run again, or
    only another limit blocks it."""
    over = job.over_quota or job.over_group_limit
    return job.active or over or (_is_delayed(job) and not job.before_begin)


def _submission_number(job: JobState) -> int:
    return job.seq


def _count(counts: dict[str, int], batch: str, change: int) -> None:
    count = counts.get(batch, 0) + change
    if count:
        counts[batch] = count
    else:
        del counts[batch]
