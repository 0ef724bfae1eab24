"""Who is next, kept sorted as facts come in.

A key is a line: its value now, plus a slope while the job holds GPUs. Waiting jobs have a constant key: one sorted list
per shape. Jobs that run with the same slope never overtake each other: one sorted list of intercepts per slope, of
which only the ends are ever compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace, merge
from math import inf
from typing import Any, ClassVar, Final

from weft.core.ports import Policy
from weft.core.queue.by_queue import Queues
from weft.core.queue.cursors import Entry, QueueCursor, WaitingList
from weft.core.queue.expected_ends import ExpectedEnds, end_of
from weft.core.resources.node import Holder
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.errors import PlanError
from weft.model import JobId, Seconds

Line = tuple[float, int, JobState]
"""(intercept, tie-breaker, job): ascending, so that the worst is last."""
KEY_ROUNDING = 1e-6
"""A line gives back a key with this much error: keys that close are equal, or a job could be stopped for its like."""
ROUNDING_S = 1e-6
"""The same step computed at two instants may differ by this much."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Which runs are left alone, so that nobody is stopped again and again."""

    min_run_s: float = 0.0
    """A run is not preempted before it has lasted this long."""
    max_preemptions: int | None = None
    """A job that was preempted this often is not preempted again."""

    def until(self, job: JobState) -> Seconds:
        """From when on its run may be preempted; infinite: never."""
        if self.max_preemptions is not None and job.preemptions >= self.max_preemptions:
            return inf
        return job.started_at + self.min_run_s if self.min_run_s else -inf


UNPROTECTED: Final = Protection()


class Order:
    """With `victims`, it also keeps the running jobs, worst last; with `ends`, when runs are expected to end."""

    keyed: ClassVar[bool] = True
    """Whether the policy has a key."""

    def __init__(
        self, policy: Policy, *, victims: bool, ends: bool = False, protection: Protection = UNPROTECTED
    ) -> None:
        self.policy, self._victims, self._protection = policy, victims, protection
        self._protects = victims and protection != UNPROTECTED
        self._protected: list[tuple[Seconds, int, JobState]] = []
        """Runs that may not be stopped yet, those first that may be first."""
        self._protected_run: dict[str, int] = {}
        self.waiting: dict[Shape, WaitingList] = {}
        self._partial: list[WaitingList] = []
        """Of these lists, those of shapes that do with a part of a GPU, or with none."""
        self.fresh: dict[Shape, None] = {}
        """Shapes with somebody new at their head; whoever walks the heads clears it."""
        self._lines: dict[float, list[Line]] = {}
        self._queued: dict[str, tuple[WaitingList, Entry]] = {}
        """Where each waiting job stands."""
        self._at: dict[str, tuple[list[Line], Line]] = {}
        """Where each run stands."""
        self._due: list[tuple[Seconds, int, JobState]] = []
        self._due_of: dict[str, Seconds] = {}
        """When each running job's key steps next; what the heap says otherwise is out of date."""
        self.line_of: dict[Holder, tuple[float, float, int]] = {}
        """(slope, intercept, tie-breaker) of the runs that hold GPUs."""
        self.rising = False
        """Whether keys of running jobs grow, so that whoever was safe may not stay so."""
        kind = type(policy)
        self.memo: Any = None
        """What the policy remembers; the scheduler keeps it."""
        self.remembers = kind.key_from is not Policy.key_from
        """Whether keys come of memory. They are not journalled when they step: a replay gives the same memory."""
        self.steps = kind.until is not Policy.until
        self._tracks_runs = victims or self.steps
        self.queues = Queues(policy)
        self._has_queues = kind.queue is not Policy.queue
        self._ends = ExpectedEnds() if ends else None

    def key(self, job: JobState, now: Seconds) -> float:
        """The policy's key; one that steps is what the facts say, 0 at first."""
        if self.remembers:
            key = self.policy.key_from(self.memo, job, now)
        elif self.steps:
            return job.key or 0.0
        else:
            key = self.policy.key(job, now)
        if key != key:
            raise PlanError(f"policy {type(self.policy).__name__} gave job {job.id} a key that is not a number")
        return key

    def drain(self, state: State) -> None:
        """Takes up what changed since the last time."""
        touched = state.touched
        if not touched:
            return
        if self._ends is not None:
            for job in touched.values():
                self._ends.take_up(job)
        if self._has_queues:
            self._queue_up(touched.values(), state.now)
        if len(touched) > 64 and len(touched) * 8 > len(self._queued) + len(self._at):
            self._take_up_many(touched.values(), state.now)
        else:
            for job in touched.values():
                self._take_up(job, state.now)
        touched.clear()

    def _queue_up(self, jobs: Iterable[JobState], now: Seconds) -> None:
        for job in jobs:
            self.queues.take_up(job, lambda job: self.key(job, now))

    def _take_up(self, job: JobState, now: Seconds) -> None:
        queued = self._queued.pop(job.id, None)
        if queued is not None:
            queued[0].remove(queued[1])
        elif self._victims and (at := self._at.pop(job.id, None)) is not None:
            _remove(*at)
            del self.line_of[job]
        status = job.status
        if status == "waiting":
            shape = job.shape
            queue = self.waiting.get(shape)
            if queue is None:
                queue = self._new_list(shape)
            entry = (self.key(job, now), job.tie_breaker, job)
            if queue.add(entry):
                self.fresh[shape] = None
            self._queued[job.id] = (queue, entry)
        elif self._tracks_runs and (status == "running" or status == "starting"):
            if self._protects and self._protection.until(job) > now:
                self._protect(job)
            elif self._victims:
                slope = self.policy.slope(job)
                lines = self._lines.get(slope)
                if lines is None:
                    lines = self._lines[slope] = []
                    self.rising = self.rising or slope > 0
                line = (self.key(job, now) - slope * now, job.tie_breaker, job)
                insort(lines, line)
                self._at[job.id] = (lines, line)
                self.line_of[job] = (slope, line[0], job.tie_breaker)
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
        """A burst: extend and sort once, instead of one insertion each."""
        changed: dict[Shape, list[Entry]] = {}
        for job in jobs:
            if job.status == "waiting" and job.id not in self._queued and job.id not in self._at:
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
                self._queued[entry[2].id] = (queue, entry)

    def _new_list(self, shape: Shape) -> WaitingList:
        queue = self.waiting[shape] = WaitingList()
        if not shape.whole:
            self._partial.append(queue)
        return queue

    def ranked(self, jobs: Iterable[JobState], now: Seconds) -> list[tuple[float, int, JobState]]:
        """Jobs that are not in the lists, best first."""
        return sorted(((self.key(job, now), job.tie_breaker, job) for job in jobs), key=lambda e: e[:2])

    # ---- who is best

    def cursor(self, largest_node: int, *, fresh: bool = False) -> QueueCursor:
        """Waiting jobs, best first; with `fresh`, only of shapes that have somebody new at their head."""
        lists = [self.waiting[shape] for shape in self.fresh] if fresh else self.waiting.values()
        self.fresh.clear()
        return QueueCursor(lists, largest_node)

    def best_first(self) -> Iterator[JobState]:
        """All that wait, lazily."""
        return (job for _, _, job in merge(*self.waiting.values()))

    def all_want_whole_gpus(self) -> bool:
        """Whether nobody waits who would do with a part of a GPU, or with none."""
        return not any(self._partial)

    def ordered(self, shape: Shape, active: list[tuple[float, int, JobState]]) -> Iterator[tuple[float, int, JobState]]:
        """Waiting jobs of a shape merged with the given active ones, best first."""
        waiting = self.waiting.get(shape, ())
        return merge(waiting, active) if active else iter(waiting)

    def soonest(self, state: State) -> Iterator[JobState]:
        """Runs that stay until they end by themselves, those first that end first."""
        if self._ends is not None:
            return self._ends.soonest(state.now)
        runs = (run for run in state.active.values() if not run.releasing)
        return (run for _, _, run in sorted(end_of(run, state.now) for run in runs))

    # ---- who is worst

    def anybody_worse(self, now: Seconds, key: float, tie: int) -> bool:
        """Whether there is a run that may be stopped for a waiting job with this key and tie-breaker."""
        for slope, lines in self._lines.items():
            if lines and lines[-1][0] + slope * now >= key - KEY_ROUNDING:
                return next(self.worst(now, (key, tie)), None) is not None
        return False

    def worst(self, now: Seconds, worse_than: tuple[float, int]) -> Iterator[JobState]:
        """Runs that may be stopped for a waiting job with this (key, tie-breaker), the worst first."""
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
            else:  # nor may those be stopped that stand as it does and have started before
                index = bisect_left(lines, lines[index][0], hi=index, key=_intercept)
            if index:
                heapreplace(heap, self._tail(slope, lines, index - 1, now))
            else:
                heappop(heap)

    @staticmethod
    def _tail(slope: float, lines: list[Line], index: int, now: Seconds) -> tuple[float, int, float, int]:
        intercept, tie, _ = lines[index]
        return -(intercept + slope * now), -tie, slope, index

    def _protect(self, job: JobState) -> None:
        if self._protected_run.get(job.id) != job.run:
            self._protected_run[job.id] = job.run
            heappush(self._protected, (self._protection.until(job), job.seq, job))

    def unprotected(self, now: Seconds) -> list[JobState]:
        """Runs whose protection has ended by now: they can be taken up anew."""
        found = []
        while self._protected and self._protected[0][0] <= now:
            found.append(heappop(self._protected)[2])
            self._protected_run.pop(found[-1].id, None)
        return [job for job in found if job.active and not job.releasing]

    def next_unprotected(self) -> Seconds | None:
        """When the next run's protection ends."""
        while self._protected and not self._protected[0][2].active:
            self._protected_run.pop(heappop(self._protected)[2].id, None)
        return self._protected[0][0] if self._protected and self._protected[0][0] < inf else None

    # ---- keys that step

    def stepping(self, now: Seconds) -> list[JobState]:
        """Running jobs whose key may have stepped by now, in order of submission."""
        found = []
        while (following := self._next_due()) is not None and following[0] <= now:
            heappop(self._due)
            del self._due_of[following[1].id]
            found.append(following[1])
        return sorted(found, key=lambda job: job.seq)

    def next_step(self) -> Seconds | None:
        """When the next key steps."""
        following = self._next_due()
        return None if following is None else following[0]

    def _next_due(self) -> tuple[Seconds, JobState] | None:
        while self._due:
            due, _, job = self._due[0]
            if self._due_of.get(job.id) == due and job.active and not job.releasing:
                return due, job
            heappop(self._due)
            if self._due_of.get(job.id) == due:
                del self._due_of[job.id]
        return None


class Resorted(Order):
    """The same order, sorted anew each time: slow and obvious, to check the other against."""

    def cursor(self, largest_node: int, *, fresh: bool = False) -> QueueCursor:  # noqa: ARG002
        return super().cursor(largest_node)

    def drain(self, state: State) -> None:
        state.touched.clear()
        self._ends, self.queues = None, Queues(self.policy)
        self._queue_up(state.jobs.values(), state.now)
        self.waiting, self._lines, self._at, self.line_of, self._partial, self._queued = {}, {}, {}, {}, [], {}
        for job in state.jobs.values():
            self._take_up(job, state.now)


class Unordered(Order):
    """For replanners without a key: first come, first served, and nothing is kept sorted."""

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
        """Unknown: nothing is kept by shape."""
        return False


def has_key(policy: Policy) -> bool:
    kind = type(policy)
    return kind.key is not Policy.key or kind.key_from is not Policy.key_from


def order_of(policy: Policy, *, victims: bool, ends: bool, protection: Protection, resort: bool) -> Order:
    """The order of a policy; with `resort`, one that sorts everything again each time."""
    if not has_key(policy):
        return Unordered(policy)
    return (Resorted if resort else Order)(policy, victims=victims, ends=ends, protection=protection)


def _intercept(line: Line) -> float:
    return line[0]


def _remove(lines: list[Line], line: Line) -> None:
    if lines[-1] is line:
        lines.pop()
    else:
        del lines[bisect_left(lines, line)]
