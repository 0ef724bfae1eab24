"""The order of jobs by key. It stays sorted as facts come in.

A key is a line: its value now, plus a slope while the job holds GPUs. Waiting jobs have a constant key: one sorted list
per shape. Jobs that run with the same slope never overtake each other: one sorted list of intercepts per slope, of
which only the ends are ever compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace, merge
from math import inf
from typing import Any, ClassVar

from weft.errors import PlanError
from weft.model import JobId, Seconds
from weft.model.status import ACTIVE, Status
from weft.scheduling.core.blame import blame
from weft.scheduling.core.ports import Policy
from weft.scheduling.core.queue.by_queue import Queues
from weft.scheduling.core.queue.cursors import Entry, QueueCursor, WaitingList
from weft.scheduling.core.queue.expected_ends import ExpectedEnds, end_of
from weft.scheduling.core.queue.lines import Lines
from weft.scheduling.core.queue.protection import UNPROTECTED, Protection
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

KEY_ROUNDING = 1e-6
"""The error of a key computed from a line. Keys this close count as equal, so that no job stops for its equal."""
ROUNDING_S = 1e-6
"""The most that one step, computed at two instants, may differ."""


class Order:
    """The order of waiting jobs; with `victims`, also of runs, worst last; with `ends`, also their expected ends."""

    keyed: ClassVar[bool] = True
    """True if the policy has a key."""

    def __init__(
        self, policy: Policy, *, victims: bool, ends: bool = False, protection: Protection = UNPROTECTED
    ) -> None:
        self.policy, self._victims, self._protection = policy, victims, protection
        self.ranks_runs = victims
        """True if `worst` yields runs."""
        self._protects = victims and protection != UNPROTECTED
        self._protected: list[tuple[Seconds, int, JobState]] = []
        """A heap of the runs that may not be preempted yet, by the end of their protection."""
        self._protected_run: dict[str, int] = {}
        self.waiting: dict[Shape, WaitingList] = {}
        self._partial: list[WaitingList] = []
        """The lists of shapes that need a part of a GPU, or no GPU."""
        self.fresh: dict[Shape, None] = {}
        """Shapes whose first job is new; `cursor` clears it."""
        self._lines: dict[float, Lines] = {}
        self._due: list[tuple[Seconds, int, JobState]] = []
        self._due_of: dict[str, Seconds] = {}
        """When the key of each running job steps next; other entries of the heap are out of date."""
        self.rising = False
        """True if keys of running jobs grow: a run that could not be preempted may become preemptible."""
        self._key, self._slope = policy.key, policy.slope
        kind = type(policy)
        self.memo: Any = None
        """The memory of the policy; the scheduler updates it."""
        self.remembers = kind.key_from is not Policy.key_from
        """True if keys depend on the memory. Their steps are not journalled: a replay restores the memory."""
        self.steps = kind.until is not Policy.until
        self._kept: frozenset[Status] = frozenset({"waiting"})
        """The statuses of the jobs that have a place in the order."""
        if victims or self.steps:
            self._kept |= {"starting", "running"}
        self.queues = Queues(policy)
        self._has_queues = kind.queue is not Policy.queue
        self._ends = ExpectedEnds() if ends else None
        self.tracks_changes = False
        self.changed: dict[JobId, JobState] = {}
        """If changes are tracked: the jobs that changed since the planner last cleared it."""

    def track_changes(self) -> None:
        """Record in `changed` which jobs change from now on."""
        self.tracks_changes = True

    def key(self, job: JobState, now: Seconds) -> float:
        """Return the policy's key. A key that steps comes from the facts and starts at 0."""
        if self.remembers:
            key = self.policy.key_from(self.memo, job, now)
        elif self.steps:
            return job.key or 0.0
        else:
            key = self._key(job, now)
        if +key != key:  # not a number; the plus rejects text and None, which would compare equal
            what = f"returned a key for job {job.id} that is not a number: {key}"
            raise PlanError(blame(self.policy, what, "key_from" if self.remembers else "key"))
        return key

    def drain(self, state: State) -> None:
        """Update the places of all jobs that changed since the last call."""
        touched = state.touched
        if not touched:
            return
        if state.services.by_name:
            _drop_replicas(touched)
        if self._ends is not None:
            for job in touched.values():
                self._ends.take_up(job)
        if self.tracks_changes:
            self.changed.update(touched)
        if self._has_queues:
            self._queue_up(touched.values(), state.now)
        if len(touched) > 64 and len(touched) * 8 > len(state.waiting) + len(state.active):
            self._take_up_many(touched.values(), state.now)
        else:
            kept = self._kept
            for job in touched.values():
                if job.place is not None or job.status in kept:
                    self._take_up(job, state.now)
        touched.clear()

    def _queue_up(self, jobs: Iterable[JobState], now: Seconds) -> None:
        for job in jobs:
            self.queues.take_up(job, lambda job: self.key(job, now))

    def _take_up(self, job: JobState, now: Seconds) -> None:
        if job.place is not None:
            entries, entry, _ = job.place
            entries.remove(entry)
            job.place = None
        status = job.status
        if status == "waiting":
            shape = job.shape
            queue = self.waiting.get(shape)
            if queue is None:
                queue = self._new_list(shape)
            entry = (self.key(job, now), job.tie_breaker, job)
            if queue.add(entry):
                self.fresh[shape] = None
            job.place = queue, entry, 0.0
        elif status in self._kept:
            if self._protects and self._protection.until(job) > now:
                self._protect(job)
            elif self._victims:
                slope = self._slope(job)
                lines = self._lines.get(slope)
                if lines is None:
                    lines = self._lines[slope] = Lines()
                    self.rising = self.rising or slope > 0
                line = (self.key(job, now) - slope * now, job.tie_breaker, job)
                insort(lines, line)
                job.place = lines, line, slope
            if self.steps:
                self._note_due(job, now)

    def _note_due(self, job: JobState, now: Seconds) -> None:
        due, known = self.policy.until(job, now), self._due_of.get(job.id)
        if due is None:
            self._due_of.pop(job.id, None)
        elif known is None or abs(due - known) > ROUNDING_S:
            self._due_of[job.id] = due
            heappush(self._due, (due, job.seq, job))

    def _take_up_many(self, jobs: Iterable[JobState], now: Seconds) -> None:
        """Update many jobs: extend and sort each list once, instead of one insertion per job."""
        changed: dict[Shape, list[Entry]] = {}
        for job in jobs:
            if job.status == "waiting" and job.place is None:
                changed.setdefault(job.shape, []).append((self.key(job, now), job.tie_breaker, job))
            else:
                self._take_up(job, now)
        for shape, fresh in changed.items():
            queue = self.waiting.get(shape)
            if queue is None:
                queue = self._new_list(shape)
            queue.add_all(fresh)
            self.fresh[shape] = None
            for entry in fresh:
                entry[2].place = queue, entry, 0.0

    def _new_list(self, shape: Shape) -> WaitingList:
        queue = self.waiting[shape] = WaitingList()
        if not shape.whole:
            self._partial.append(queue)
        return queue

    def ranked(self, jobs: Iterable[JobState], now: Seconds) -> list[tuple[float, int, JobState]]:
        """Return the given jobs, best first; they need not be in the lists."""
        return sorted(((self.key(job, now), job.tie_breaker, job) for job in jobs), key=lambda e: e[:2])

    # ---- waiting jobs, best first

    def cursor(self, largest_node: int, *, fresh: bool = False) -> QueueCursor:
        """Return the waiting jobs, best first; with `fresh`, only those of shapes whose first job is new."""
        lists = [self.waiting[shape] for shape in self.fresh] if fresh else self.waiting.values()
        self.fresh.clear()
        return QueueCursor(lists, largest_node)

    def best_first(self) -> Iterator[JobState]:
        """Yield all waiting jobs, best first; lazy."""
        return (job for _, _, job in merge(*self.waiting.values()))

    def all_want_whole_gpus(self) -> bool:
        """Return whether no waiting job needs only a part of a GPU, or no GPU."""
        return not any(self._partial)

    def ordered(self, shape: Shape, active: list[tuple[float, int, JobState]]) -> Iterator[tuple[float, int, JobState]]:
        """Return the waiting jobs of a shape, merged with the given active jobs, best first."""
        waiting = self.waiting.get(shape, ())
        return merge(waiting, active) if active else iter(waiting)

    def soonest(self, state: State) -> Iterator[JobState]:
        """Yield the runs that are not stopping, by expected end."""
        if self._ends is not None:
            return self._ends.soonest(state.now)
        runs = (run for run in state.active.values() if not run.releasing)
        return (run for _, _, run in sorted(end_of(run, state.now) for run in runs))

    def has_loading_runs(self) -> bool:
        """Return whether a run makes no progress yet, so that its expected end moves with the clock."""
        return self._ends is not None and self._ends.has_loading

    def drifted(self, state: State) -> Iterator[tuple[JobState, float, float]]:
        """Yield the waiting jobs whose key is not the one they are sorted by, with both keys."""
        for known, _, job in merge(*self.waiting.values()):
            if job.id not in state.touched and abs((key := self.key(job, state.now)) - known) > KEY_ROUNDING:
                yield job, known, key

    def entry_of(self, job: JobState) -> Entry:
        """Return the entry of a waiting job."""
        assert job.place is not None
        entry: Entry = job.place[1]
        return entry

    # ---- runs, worst first

    def has_worse_run(self, now: Seconds, key: float, tie: int) -> bool:
        """Return whether any run may be preempted for a waiting job with this key and tie-breaker."""
        for slope, lines in self._lines.items():
            if lines:
                intercept, last_tie, _ = lines[-1]
                last = intercept + slope * now
                if last >= key - KEY_ROUNDING:
                    if last > key + KEY_ROUNDING or last_tie > tie:
                        return True
                    first = bisect_left(lines, (intercept,))
                    if first and lines[first - 1][0] + slope * now >= key - KEY_ROUNDING:  # keys differ by rounding
                        return next(self.worst(now, (key, tie)), None) is not None
        return False

    def worst(self, now: Seconds, worse_than: tuple[float, int]) -> Iterator[JobState]:
        """Yield the runs that may be preempted for a waiting job with this (key, tie-breaker), worst first."""
        least_key, least_tie = worse_than
        heap = []
        for slope, lines in self._lines.items():
            if lines:
                intercept, tie, _ = lines[-1]
                key = intercept + slope * now
                if key >= least_key - KEY_ROUNDING:
                    heap.append((-key, -tie, slope, len(lines) - 1))
        if len(heap) > 1:
            heapify(heap)
        while heap:
            key, tie, slope, index = heap[0]
            if -key < least_key - KEY_ROUNDING:
                return
            lines = self._lines[slope]
            if -key > least_key + KEY_ROUNDING or -tie > least_tie:
                yield lines[index][2]
            else:  # skip the runs with the same key that started before: they may not be preempted either
                index = bisect_left(lines, (lines[index][0],), hi=index)
            if index:
                heapreplace(heap, self._tail(slope, lines, index - 1, now))
            else:
                heappop(heap)

    @staticmethod
    def _tail(slope: float, lines: Lines, index: int, now: Seconds) -> tuple[float, int, float, int]:
        intercept, tie, _ = lines[index]
        return -(intercept + slope * now), -tie, slope, index

    def _protect(self, job: JobState) -> None:
        if self._protected_run.get(job.id) != job.run:
            self._protected_run[job.id] = job.run
            heappush(self._protected, (self._protection.until(job), job.seq, job))

    def unprotected(self, now: Seconds) -> list[JobState]:
        """Return the runs whose protection has ended by now, and forget them."""
        found = []
        while self._protected and self._protected[0][0] <= now:
            found.append(heappop(self._protected)[2])
            self._protected_run.pop(found[-1].id, None)
        return [job for job in found if job.active and not job.releasing]

    def next_unprotected(self) -> Seconds | None:
        """Return when the next run's protection ends."""
        while self._protected and not self._protected[0][2].active:
            self._protected_run.pop(heappop(self._protected)[2].id, None)
        return self._protected[0][0] if self._protected and self._protected[0][0] < inf else None

    # ---- keys that step

    def stepping(self, now: Seconds) -> list[JobState]:
        """Return the running jobs whose key may have stepped by now, in order of submission."""
        found: list[JobState] = []
        while (following := self._next_due()) is not None and following[0] <= now:
            heappop(self._due)
            job = following[2]
            del self._due_of[job.id]
            found.append(job)
        if len(found) > 1:
            found.sort(key=lambda job: job.seq)
        return found

    def next_step(self) -> Seconds | None:
        """Return when the next key steps."""
        following = self._next_due()
        return None if following is None else following[0]

    def _next_due(self) -> tuple[Seconds, int, JobState] | None:
        while self._due:
            due, _, job = first = self._due[0]
            if self._due_of.get(job.id) == due and job.status in ACTIVE and not job.releasing:
                return first
            heappop(self._due)
            if self._due_of.get(job.id) == due:
                del self._due_of[job.id]
        return None


class Resorted(Order):
    """The same order, sorted again at each step: slow and obvious, to check `Order` against."""

    def track_changes(self) -> None:
        """Track nothing: every pass tries all jobs."""

    def cursor(self, largest_node: int, *, fresh: bool = False) -> QueueCursor:  # noqa: ARG002
        return super().cursor(largest_node)

    def drain(self, state: State) -> None:
        state.touched.clear()
        self._ends, self.queues = None, Queues(self.policy)
        self._queue_up(state.jobs.values(), state.now)
        self.waiting, self._lines, self._partial = {}, {}, []
        for job in state.jobs.values():
            job.place = None
            if job.job.replica is None:
                self._take_up(job, state.now)


class Unordered(Order):
    """The order for replanners without a key: first come, first served. Nothing is kept sorted."""

    keyed: ClassVar[bool] = False

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy, victims=False)
        self._waiting: Mapping[JobId, JobState] = {}

    def drain(self, state: State) -> None:
        state.touched.clear()
        self._waiting = state.waiting

    def key(self, job: JobState, now: Seconds) -> float:  # noqa: ARG002
        return 0.0

    def ranked(self, jobs: Iterable[JobState], now: Seconds) -> list[tuple[float, int, JobState]]:  # noqa: ARG002
        return [(0.0, job.seq, job) for job in sorted(jobs, key=lambda job: job.seq)]

    def best_first(self) -> Iterator[JobState]:
        return iter(sorted(self._waiting.values(), key=lambda job: job.seq))

    def all_want_whole_gpus(self) -> bool:
        """Return False: the shapes of waiting jobs are unknown."""
        return False


def has_key(policy: Policy) -> bool:
    kind = type(policy)
    return kind.key is not Policy.key or kind.key_from is not Policy.key_from


def order_of(policy: Policy, *, victims: bool, ends: bool, protection: Protection, resort: bool) -> Order:
    """Return the order of a policy; with `resort`, one that sorts all jobs again at each step."""
    if not has_key(policy):
        return Unordered(policy)
    return (Resorted if resort else Order)(policy, victims=victims, ends=ends, protection=protection)


def _drop_replicas(jobs: dict[JobId, JobState]) -> None:
    """Remove the replicas of services: they come before all jobs, and are not preempted."""
    for replica in [job.id for job in jobs.values() if job.job.replica is not None]:
        del jobs[replica]
