"""Planners for key policies: one pass over the waiting jobs, best first. Each job is placed, or runs are preempted for
it, or it is skipped."""

from __future__ import annotations

from typing import ClassVar

from weft.scheduling.core.planning.planner import RoundPlanner
from weft.scheduling.core.state.job import JobState


class StrictPlanner(RoundPlanner):
    """The planner without preemption: a job that does not fit blocks all jobs behind it."""

    def plan(self) -> None:
        context = self.context
        order, allocator, cache = context.order, context.allocator, context.cache
        resources = allocator.resources
        if context.remembers and cache.still_blocked():
            return
        only_whole = order.all_want_whole_gpus()
        if only_whole and resources.after_release.exhausted():
            return
        if context.remembers and cache.blocks_again(allocator):
            return
        cursor = context.cursor()
        allocator.begin()
        for _, _, job in cursor:
            shape = job.shape
            if allocator.start((job,), shape, job.wanted_share) or (resources.releasing and allocator.promise(shape)):
                if only_whole and allocator.full():
                    break  # no later job fits either
                continue
            if not cache.impossible(shape, allocator.placement):
                cache.block(job)
                return
            cursor.fail(shape)
        cache.settled_at = resources.change_log.version


class PreemptivePlanner(RoundPlanner):
    """The planner that preempts runs with larger keys, and passes jobs that do not fit even so."""

    preempts_by_key: ClassVar[bool] = True

    def plan(self) -> None:
        context = self.context
        order, allocator, cache, now = context.order, context.allocator, context.cache, context.state.now
        resources, strict = allocator.resources, not self.lets_pass
        remembers = context.remembers and not allocator.splits_gangs
        only_whole = order.all_want_whole_gpus()
        settled = cache.settled_at == resources.change_log.version and not order.rising and not resources.releasing
        cursor = context.cursor(fresh=self.lets_pass and settled and only_whole)
        allocator.begin()
        full = only_whole and allocator.full()
        can_preempt = True  # keys ascend: once no run is worse than a job, none is worse than later ones
        for key, tie, job in cursor:
            can_preempt = can_preempt and order.has_worse_run(now, key, tie)
            if full and not can_preempt:
                break  # no later job fits either
            shape = job.shape
            if not (can_preempt and remembers and cache.hopeless(shape, key, tie)) and (
                allocator.start((job,), shape, job.wanted_share)
                or (resources.releasing and allocator.promise(shape))
                or (can_preempt and shape.gpus and self._preempt(job, key, tie))
            ):
                full = only_whole and allocator.full()
                continue
            if strict and self._blocks(job):
                return
            cursor.fail(shape)
        cache.settled_at = resources.change_log.version

    def _preempt(self, job: JobState, key: float, tie: int) -> bool:
        context, shape = self.context, job.shape
        allocator = context.allocator
        worse = context.order.worst(context.state.now, (key, tie))
        plan = allocator.find_victims(shape, context.victims(job, worse))
        if plan.parts is None:
            context.cache.learn(shape, key, tie, plan.free, allocator.promised)
        return allocator.preempt(shape, plan)

    def _blocks(self, _job: JobState) -> bool:
        """Return whether this job, which does not fit, blocks all jobs behind it."""
        return False


class StrictPreemptivePlanner(PreemptivePlanner):
    """The planner that preempts runs with larger keys; a job that does not fit even so blocks all jobs behind it."""

    def _blocks(self, job: JobState) -> bool:
        cache = self.context.cache
        if cache.impossible(job.shape, self.context.placement):
            return False
        cache.block(job)
        return True
