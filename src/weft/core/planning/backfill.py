"""EASY backfill, for policies that do not preempt: the first job that does not fit gets a reservation. Later jobs may
start if they do not delay it: on GPUs that it does not need, or on any if they end before."""

from __future__ import annotations

from typing import ClassVar, Final

from weft.core.planning.allocator import NEVER, Allocator
from weft.core.planning.planner import RoundPlanner
from weft.core.queue.order import Order
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.model import Seconds, Share

BACKFILL_DEPTH: Final = 500
"""The most waiting jobs that a pass tries in vain; the first of them gets the reservation."""


class EasyBackfill:
    """One pass over the waiting jobs, best first. Free GPUs only shrink, so no shape is tried twice in vain."""

    def __init__(self, allocator: Allocator, order: Order) -> None:
        self._allocator, self._order = allocator, order
        self._until: Seconds | None = None
        """When the first job that does not fit gets its GPUs; None: all have fitted so far."""
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
            if allocator.start(jobs, shape, share):
                return True
            if self._until is None:
                self._until = allocator.reserve(shape, self._order.soonest(allocator.state))
                self.hopeless.add(shape)
                return False
            self._outside.add(shape)
            if not allocator.would_fit(shape):
                self.hopeless.add(shape)
                return False
        now, until = allocator.state.now, self._until
        if until is None or until == NEVER:
            return False
        for job in jobs:
            if now + job.remaining(now) > until:
                return False
        return self._start_meanwhile(jobs, shape, share)

    def _start_meanwhile(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        if self._allocator.start_meanwhile(jobs, shape, share):
            return True
        self.hopeless.add(shape)
        return False


class BackfillPlanner(RoundPlanner):
    """The planner for key policies that do not preempt and let jobs pass: EASY backfill."""

    reserves: ClassVar[bool] = True

    def plan(self) -> None:
        context = self.context
        order, allocator = context.order, context.allocator
        after_release = allocator.resources.after_release
        if order.all_want_whole_gpus() and after_release.exhausted():
            return
        allocator.begin()
        cursor, easy = order.cursor(after_release.top), EasyBackfill(allocator, order)
        in_vain = 0
        for _, _, job in cursor:
            if easy.start((job,), job.shape, job.wanted_share):
                continue
            if job.shape in easy.hopeless:
                cursor.fail(job.shape)
            in_vain += 1
            if in_vain > BACKFILL_DEPTH:
                return
