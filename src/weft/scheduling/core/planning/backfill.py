"""EASY backfill, for policies that do not preempt: the first job that does not fit gets a reservation once it has
waited for the policy's patience. Later jobs may then start if they do not delay it: on GPUs that it does not need, or
on any if they end before."""

from __future__ import annotations

from typing import ClassVar, Final

from weft.model import Seconds, Share
from weft.scheduling.core.planning.allocator import NEVER
from weft.scheduling.core.planning.planner import Context, RoundPlanner
from weft.scheduling.core.queue.cursors import Entry
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState

BACKFILL_DEPTH: Final = 500
"""The most waiting jobs that a pass tries in vain; the first of them gets the reservation."""


class EasyBackfill:
    """One pass over the waiting jobs, best first. Free GPUs only shrink, so no shape is tried twice in vain."""

    def __init__(self, context: Context) -> None:
        self._allocator, self._order = context.allocator, context.order
        self._cache, self._patience_s = context.cache, context.policy.patience
        self.head: JobState | None = None
        """The first job that does not fit; None: all have fitted so far."""
        self._unreserved: Shape | None = None
        """The shape of the head until GPUs are reserved for it, which can wait until another job fits."""
        self._until: Seconds = NEVER
        """When the head gets its GPUs; `NEVER`: unknown, or it has no reservation yet."""
        self._outside: set[Shape] = set()
        """Shapes that do not fit outside the reservation."""
        self.hopeless: set[Shape] = set()
        """Shapes that would not fit even if nothing were reserved."""

    def start(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Start the jobs, or reserve GPUs if they are the first that do not fit; False: they keep waiting."""
        if shape in self.hopeless:
            return False
        allocator = self._allocator
        if shape not in self._outside:
            if self._unreserved is not None and allocator.fits(shape):
                self._until, self._unreserved = self._reserve(self._unreserved), None
            if self._unreserved is None and allocator.start(jobs, shape, share):
                return True
            if self.head is None:
                self._let_wait(jobs[0], shape)
                return False
            self._outside.add(shape)
            if self._unreserved is not None or not allocator.would_fit(shape):
                self.hopeless.add(shape)
                return False
        now, until = allocator.state.now, self._until
        if until == NEVER:
            return False
        for job in jobs:
            if now + allocator.state.durations.longest_left_s(job, now) > until:
                return False
        return self._start_meanwhile(jobs, shape, share)

    def keeps_out(self, shape: Shape) -> bool:
        """Return whether `start` fails for all jobs of the shape: only reserved GPUs are left for it, for an unknown
        time. Most of a long queue is in this state, so the walk asks first."""
        return self._until == NEVER and shape in self._outside and shape not in self.hopeless

    def _let_wait(self, job: JobState, shape: Shape) -> None:
        """Make the job, which does not fit, the head, unless it needs more than the nodes have."""
        self.hopeless.add(shape)
        if self._cache.impossible(shape, self._allocator.placement):
            return
        self.head = job
        if not self.is_patient(job, self._allocator.state.now):
            self._unreserved = shape

    def is_patient(self, job: JobState, now: Seconds) -> bool:
        """Return whether the job, which does not fit, lets others pass freely."""
        return now - job.waiting_since < self._patience_s

    def _reserve(self, shape: Shape) -> Seconds:
        allocator = self._allocator
        return allocator.reserve(shape, self._order.soonest(allocator.state))

    def _start_meanwhile(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        if self._allocator.start_meanwhile(jobs, shape, share):
            return True
        self.hopeless.add(shape)
        return False


class BackfillPlanner(RoundPlanner):
    """The planner for key policies that do not preempt and let jobs pass: EASY backfill.

    A pass that starts nothing stays valid while jobs only arrive: the next pass then tries the new jobs alone.
    """

    reserves: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        context.order.track_changes()
        self._last: BackfillPass | None = None

    def plan(self) -> None:
        context = self.context
        order, after_release = context.order, context.allocator.resources.after_release
        full = order.all_want_whole_gpus() and after_release.exhausted()
        arrivals = None if full else self._arrivals()
        order.changed.clear()
        if full:
            self._last = None
        elif arrivals is None:
            context.allocator.begin()
            self._last = BackfillPass(context)
            self._last.walk()
        elif self._last is not None:
            self._last.walk_arrivals(arrivals)

    def _arrivals(self) -> list[Entry] | None:
        """Return the jobs that arrived since the last pass, best first; None: the next pass must try all jobs."""
        last, order, now = self._last, self.context.order, self.context.state.now
        if last is None or not self.context.remembers or not order.tracks_changes:
            return None
        if order.has_loading_runs() or not last.is_valid(now):
            return None
        arrivals = []
        for job in order.changed.values():
            if job.status != "waiting" or job is last.head:
                return None
            arrivals.append(order.entry_of(job))
        arrivals.sort()
        return arrivals if last.accepts(arrivals) else None


class BackfillPass:
    """One pass of the backfill planner."""

    def __init__(self, context: Context) -> None:
        self._state, self._resources = context.state, context.allocator.resources
        self._easy, self._patient = EasyBackfill(context), False
        self._cursor = context.cursor()
        self._in_vain = 0
        self._head_entry: tuple[float, int] | None = None
        self._stopped_at: tuple[float, int] | None = None
        """The job at which the pass ended early; None: it tried all."""
        self._version = -1

    @property
    def head(self) -> JobState | None:
        return self._easy.head

    def is_valid(self, now: Seconds) -> bool:
        """Return whether no GPU changed since the pass, and its head still waits with or without a reservation."""
        head = self.head
        if head is None or head.status != "waiting" or self._version != self._resources.change_log.version:
            return False
        return self._easy.is_patient(head, now) == self._patient

    def accepts(self, arrivals: list[Entry]) -> bool:
        """Return whether the head stays the head, and jobs that the pass tried stay among the first."""
        first = self._stopped_at or self._head_entry
        return not arrivals or (first is not None and arrivals[0][:2] > first)

    def walk(self) -> None:
        for entry in self._cursor:
            if not self._try(entry):
                break
        self._version = self._resources.change_log.version

    def walk_arrivals(self, arrivals: list[Entry]) -> None:
        for entry in arrivals:
            if self._stopped_at is not None:
                break
            if not self._cursor.dropped(entry[2].shape) and not self._try(entry):
                break
        self._version = self._resources.change_log.version

    def _try(self, entry: Entry) -> bool:
        """Start the job if it fits and delays no better one; return False where the pass ends."""
        key, tie, job = entry
        easy = self._easy
        if not easy.keeps_out(job.shape):
            if easy.start((job,), job.shape, job.wanted_share):
                return True
            if easy.head is job:
                self._head_entry, self._patient = (key, tie), easy.is_patient(job, self._state.now)
            if job.shape in easy.hopeless:
                self._cursor.fail(job.shape)
        self._in_vain += 1
        if self._in_vain > BACKFILL_DEPTH:
            self._stopped_at = key, tie
            return False
        return True
