"""Reclaim: runs on borrowed GPUs stop for jobs to which the GPUs are guaranteed.

No more runs stop than the job needs. Runs that no guarantee covers come first, then those with the least work to lose.
A service keeps its least number of replicas. A job whose GPUs were taken back lately keeps those that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.core.planning.allocator import Allocator, PreemptionPlan
from weft.core.resources.node import Holder
from weft.core.state.job import JobState
from weft.model import Stop

if TYPE_CHECKING:
    from weft.core.teams.context import TeamContext


def find_reclaim(context: TeamContext, job: JobState, allocator: Allocator | None = None) -> PreemptionPlan | None:
    """Return the runs that could stop for the job; None: not enough of them."""
    shape = job.shape
    if not shape.gpus:
        return None
    if shape.family.where.pinned:
        return _plan_pinned(context, job)
    plan = (allocator or context.allocator).find_victims(shape, _reclaimable(context, job))
    return None if plan.parts is None else plan


def _plan_pinned(context: TeamContext, job: JobState) -> PreemptionPlan | None:
    """Return the runs on the GPUs that the job is pinned to; None: one of them may not stop, or they are not enough."""
    resources, shape, able = context.state.resources, job.shape, set(_reclaimable(context, job))
    gone: dict[Holder, None] = {}
    parts: list[tuple[int, int]] = []
    for name, gpus in shape.family.where.pinned:
        host = resources.by_id.get(name)
        if host is None or not host.alive or any(gpu >= len(host.holders) for gpu in gpus):
            return None
        there = [holder for gpu in gpus for holder in host.holders[gpu] if not holder.releasing]
        if not able.issuperset(there):
            return None
        gone.update(dict.fromkeys(there))
        if host.count_for(shape, after_release=True, gone=gone) < len(gpus):
            return None
        parts.append((host.index, len(gpus)))
    runs = tuple([run for run in gone if isinstance(run, JobState)])
    return PreemptionPlan(tuple(parts), gone, resources.after_release, runs)


def reclaim_for(context: TeamContext, job: JobState, plan: PreemptionPlan) -> bool:
    """Stop the runs that must go, and promise their GPUs to the job."""
    allocator, now = context.allocator, context.state.now
    for run in allocator.needed_victims(job.shape, plan):
        context.decide(Stop(now, run.id, run.run, "reclaimed"))
    return allocator.promise_parts(plan.parts)


def _reclaimable(context: TeamContext, job: JobState) -> Iterator[JobState]:
    """Yield the runs that may stop for the job, those that lose least first."""
    state, standing, view = context.state, context.standing, context.view()
    found: list[tuple[int, float, int, JobState]] = []
    for run in state.active.values():
        if run.releasing or not run.gpus or not standing.may_reclaim(job, run) or context.borrows_from(run) > state.now:
            continue
        lost = view.restart_cost_s(run) * run.gpus
        found.append((standing.depth(run), lost, -run.tie_breaker, run))
    spare: dict[str, int] = {}
    for *_, run in sorted(found, key=lambda entry: entry[:3]):
        made_for = run.job.replica
        if made_for is not None:
            left = spare.get(made_for.service)
            left = _spare_replicas(context, made_for.service) if left is None else left
            if left <= 0 or run.draining_since is not None:
                continue
            spare[made_for.service] = left - 1
        yield run


def _spare_replicas(context: TeamContext, name: str) -> int:
    """Return how many replicas a service has with GPUs beyond its least number."""
    service = context.state.services.by_name[name]
    running = sum(replica.active and not replica.releasing for replica in service.staying())
    return running - service.service.scale.min_replicas
