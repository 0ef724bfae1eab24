"""Reclaim: runs on borrowed GPUs stop for jobs to which the GPUs are guaranteed.

No more runs stop than the job needs. Runs that no guarantee covers come first, then those with the least work to lose.
If they make no room where the job needs it, runs that a guarantee covers stop, and others take their place under it.
A service keeps its least number of replicas. A job whose GPUs were taken back lately keeps those that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from weft.model import Stop
from weft.scheduling.core.planning.allocator import Allocator, PreemptionPlan
from weft.scheduling.core.resources.node import Holder
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams.standing import ROUNDING, cover_order, units_of
from weft.scheduling.core.teams.victim_search import Candidate, Lenders, VictimSearch

if TYPE_CHECKING:
    from weft.scheduling.core.teams.context import TeamContext


def find_reclaim(context: TeamContext, job: JobState, allocator: Allocator | None = None) -> PreemptionPlan | None:
    """Return the runs that could stop for the job; None: not enough of them."""
    shape, allocator = job.shape, allocator or context.allocator
    if not shape.gpus:
        return None
    able = _reclaimable(context, job)
    if not able:
        return None
    if shape.family.where.pinned:
        return _plan_pinned(context, job, _candidates(context, job, able))
    lent = (run for run in able if context.standing.is_lent(job, run))
    plan = allocator.find_victims(shape, _within_spare(context, lent))
    if plan.parts is not None:
        return allocator.spare(shape, plan)
    return VictimSearch(allocator, shape, *_candidates(context, job, able)).plan()


def _plan_pinned(
    context: TeamContext, job: JobState, candidates: tuple[Lenders, list[Candidate], dict[Hashable, float]]
) -> PreemptionPlan | None:
    """Return the runs on the GPUs that the job is pinned to; None: one of them may not stop, or they are not enough."""
    resources, shape = context.state.resources, job.shape
    lenders, able, budgets = candidates
    gone: dict[Holder, None] = {}
    parts: list[tuple[int, int]] = []
    for name, gpus in shape.family.where.pinned:
        host = resources.by_id.get(name)
        if host is None or not host.alive or any(gpu >= len(host.holders) for gpu in gpus):
            return None
        gone.update(dict.fromkeys(holder for gpu in gpus for holder in host.holders[gpu] if not holder.releasing))
        if host.count_for(shape, after_release=True, gone=gone) < len(gpus):
            return None
        parts.append((host.index, len(gpus)))
    runs = tuple([run for run in gone if isinstance(run, JobState)])
    stopped = [candidate for candidate in able if any(run in gone for run in candidate.runs)]
    used = Counter[Hashable]()
    for candidate in stopped:
        used.update(candidate.uses)
    if sum(len(candidate.runs) for candidate in stopped) < len(gone) or not lenders.spare(stopped):
        return None
    if any(budgets[name] < amount - ROUNDING for name, amount in used.items()):
        return None
    return PreemptionPlan(tuple(parts), gone, resources.after_release, runs)


def reclaim_for(context: TeamContext, job: JobState, plan: PreemptionPlan) -> None:
    """Stop the runs that must go, and promise their GPUs to the job."""
    allocator, now = context.allocator, context.state.now
    for run in allocator.needed_victims(job.shape, plan):
        context.decide(Stop(now, run.id, run.run, "reclaimed"))
    allocator.promise_parts(plan.parts)


def _reclaimable(context: TeamContext, job: JobState) -> list[JobState]:
    """Return the runs that may stop for the job if their teams can give them, those that lose least first."""
    state, standing = context.state, context.standing
    able = [
        run
        for run in state.active.values()
        if not run.releasing and run.gpus and run.draining_since is None and standing.may_reclaim(job, run)
        and context.borrows_from(run) <= state.now
    ]  # fmt: skip
    view = context.view()
    return sorted(able, key=lambda run: (standing.depth(run), view.restart_cost_s(run) * run.gpus, -run.tie_breaker))


def _within_spare(context: TeamContext, runs: Iterable[JobState]) -> Iterator[JobState]:
    """Yield the runs, but no more replicas of a service than it has beyond its least number."""
    spare: dict[str, int] = {}
    for run in runs:
        made_for = run.job.replica
        if made_for is not None:
            left = spare.get(made_for.service)
            left = _spare_replicas(context, made_for.service) if left is None else left
            if left <= 0:
                continue
            spare[made_for.service] = left - 1
        yield run


def _candidates(
    context: TeamContext, job: JobState, runs: list[JobState]
) -> tuple[Lenders, list[Candidate], dict[Hashable, float]]:
    """Return the runs as candidates to stop, and the budgets that they use: GPUs of teams, replicas of services."""
    state, standing, view, able = context.state, context.standing, context.view(), set(runs)
    units = units_of(sorted((run for run in state.active.values() if not run.releasing), key=cover_order))
    lenders = Lenders(state.teams, units)
    budgets, candidates = lenders.budgets(), list[Candidate]()
    for members, gpus in units:
        if not able.issuperset(members):
            continue
        first = members[0]
        uses: dict[Hashable, float] = dict.fromkeys(standing.lenders(job, first), gpus)
        if first.job.replica is not None:
            service = first.job.replica.service
            uses[None, service] = 1
            budgets[None, service] = _spare_replicas(context, service)
        on = {state.resources.by_id[node].index: len(gpus) for node, gpus in first.slots}
        lost_s = sum(view.restart_cost_s(run) for run in members) * first.gpus
        candidates.append(Candidate(members, on, uses, not standing.is_lent(job, first), lost_s))
    return lenders, candidates, budgets


def _spare_replicas(context: TeamContext, name: str) -> int:
    """Return how many replicas a service has with GPUs beyond its least number."""
    service = context.state.services.by_name[name]
    running = sum(replica.active and not replica.releasing for replica in service.staying())
    return running - service.service.scale.min_replicas
