"""Planners for replanners: they walk over the asks, earlier ones first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

from weft.model import WHOLE, JobId, Planned, Reserve
from weft.scheduling.core.planning.asks import ask_shape, jobs_of, refuse_twice, weave_of, weave_shape
from weft.scheduling.core.planning.backfill import EasyBackfill
from weft.scheduling.core.planning.planner import TargetPlanner
from weft.scheduling.core.ports import Ask
from weft.scheduling.core.queue.cursors import Cursor
from weft.scheduling.core.state.job import JobState

UNWANTED = 1 << 60
"""The rank of a run that no ask names."""


class StartPlanner(TargetPlanner):
    """The planner for replanners that never preempt: it serves each ask before it takes the next.

    EASY holds for asks that name no GPUs: the first that does not fit is not delayed by later ones.
    """

    reserves: ClassVar[bool] = True

    def replan(self) -> None:
        context = self.context
        allocator, state = context.allocator, context.state
        allocator.begin()
        easy = EasyBackfill(context)
        for ask in context.asks():
            if ask.reserve:
                context.decide(Reserve(state.now, ask.jobs[0], ask.where.pinned))
                continue
            jobs = jobs_of(state, ask)
            shape = ask_shape(state, ask, jobs, keeps_where=True)
            if ask.where.pinned:
                allocator.start(jobs, shape, ask.share)
            else:
                easy.start(jobs, shape, ask.share)


class AskPlanner(TargetPlanner):
    """The planner for replanners that preempt. A run that matches its ask stays; any other ask is placed, or less
    wanted runs stop for it. Until the next plan, idle GPUs go to planned jobs, then to the next jobs in the order.
    So do the GPUs of asks that were refused, at once."""

    replans_vacated: ClassVar[bool] = True

    def replan(self) -> None:
        context = self.context
        if context.state.waiting or context.state.active:
            pending = self._walk(list(context.asks()))
            context.decide(Planned(context.state.now, tuple(pending)))

    def work_towards(self, *, planned: bool) -> None:
        context = self.context
        if planned and not context.refuses:
            return
        state, order, allocator = context.state, context.order, context.allocator
        order.drain(state)
        if state.resources.idle.exhausted() and order.all_want_whole_gpus():
            return
        allocator.begin()
        for ids in state.pending:
            if all(job in state.jobs for job in ids):  # a job that has ended may be purged
                self._start_pending(tuple([state.jobs[job] for job in ids]))
        if state.news or context.refuses:
            kept_back = self._kept_back()
            cursor = context.cursor()
            for _, _, job in cursor:
                if job.id in kept_back:
                    continue
                if not allocator.start((job,), job.shape, job.wanted_share):
                    cursor.fail(job.shape)

    def _kept_back(self) -> Collection[JobId]:
        """Return the waiting jobs that start only as planned."""
        return ()

    def _start_pending(self, jobs: tuple[JobState, ...]) -> None:
        """Start jobs that were planned together, or promise them GPUs that are being released."""
        allocator = self.context.allocator
        if any(job.status != "waiting" and not job.releasing for job in jobs):
            return
        share = jobs[0].wanted_share if len(jobs) == 1 else WHOLE
        shape = weave_shape(self.context.state, jobs, share)
        if any(job.releasing for job in jobs) or not allocator.start(jobs, shape, share):
            allocator.promise(shape)

    def _walk(self, asks: list[Ask]) -> list[tuple[JobId, ...]]:
        """Serve the asks in order; return the jobs that wait for GPUs to be released."""
        context = self.context
        state, allocator = context.state, context.allocator
        allocator.begin()
        pending, hopeless = [], Cursor(allocator.resources.after_release.top)
        rank = {job: place for place, ask in enumerate(asks) for job in ask.jobs}
        if len(rank) < sum(len(ask.jobs) for ask in asks):
            refuse_twice(asks)
        training = (run for run in state.active.values() if run.job.replica is None)
        able = (run for run in training if context.protection.until(run) <= state.now)
        runs = sorted(able, key=lambda job: (rank.get(job.id, UNWANTED), job.tie_breaker), reverse=True)
        for place, ask in enumerate(asks):
            jobs = jobs_of(state, ask)
            running = tuple([job for job in jobs if job.active])
            shape = ask_shape(state, ask, jobs)
            if running and _as_asked(ask, jobs):
                continue
            if not running and (hopeless.dropped(shape) or allocator.start(jobs, shape, ask.share)):
                continue
            if any(job.releasing for job in jobs):
                promised = allocator.promise(shape)
            elif not running and allocator.promise(shape):
                promised = True
            else:
                victims = context.victims(jobs[0], _less_wanted(runs, rank, place, ask))
                plan = allocator.find_victims(shape, victims, forced=running) if shape.gpus else None
                promised = plan is not None and allocator.preempt(shape, plan)
            if ask.where.pinned:
                continue
            if promised:
                pending.append(ask.jobs)
            elif not running:
                hopeless.fail(shape)
        return pending


def _less_wanted(runs: list[JobState], rank: dict[JobId, int], place: int, ask: Ask) -> Iterator[JobState]:
    """Yield the runs that stay so far and are wanted less than this ask, least wanted first."""
    for job in runs:
        if rank.get(job.id, UNWANTED) <= place:
            return
        if not job.releasing and job.id not in ask.jobs:
            yield job


def _as_asked(ask: Ask, jobs: tuple[JobState, ...]) -> bool:
    weave = weave_of(ask.jobs)
    return all(job.active and job.weave == weave and job.slots == jobs[0].slots for job in jobs)
