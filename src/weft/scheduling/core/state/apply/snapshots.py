"""Snapshots: a state as a few facts, and the state restored from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from weft.model import (
    WHOLE,
    Blocked,
    Cordoned,
    Fact,
    GroupLimited,
    JobSnapshot,
    Limited,
    NodeJoined,
    NodeLost,
    Seconds,
    ServiceSnapshot,
    StateSnapshot,
    TeamSet,
    Uncordoned,
)
from weft.model.status import ACTIVE, ENDED, Reason
from weft.scheduling.core.resources.shapes import exclusive_shape, shape_of_weave, with_memory
from weft.scheduling.core.state.apply.pools import snapshot_of
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.node_ends import apply_need

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State

CONVERTED: Final = frozenset({"at", "job", "unmet_dependencies", "allocated_mb", "usage"})
"""Fields of a snapshot that are not copied as they are."""
COPIED: Final = tuple(field.name for field in fields(JobSnapshot) if field.name not in CONVERTED)
"""Fields of a snapshot that are copied from and to a job's state."""


def snapshot(state: State) -> Iterator[Fact]:
    """Yield facts that add up to the same state. They do not include the memory of a policy."""
    now = state.now
    for host in state.resources.nodes:
        yield NodeJoined(now, host.node)
        if not host.alive:  # it keeps its index: nodes are checked in the order in which they first joined
            yield NodeLost(now, host.node.id)
    for user, gpus in state.eligibility.limits.items():
        yield Limited(now, user, gpus)
    for group, settings in state.eligibility.groups.settings.items():
        yield GroupLimited(now, group, *settings)
    for team in state.teams.by_name.values():
        yield TeamSet(now, team)
    yield from state.profiles.facts()
    for each in state.services.by_name.values():
        yield ServiceSnapshot(
            now,
            each.service,
            each.wanted,
            each.undeployed,
            each.next_index,
            each.moved_at,
            each.rollout,
            each.revisions,
        )
    for pool in state.pools.by_name.values():
        yield snapshot_of(pool, now)
    for job in state.jobs.values():
        yield _job_snapshot(now, job)
    for (node, gpu, why), occupant in state.occupants.items():
        yield Blocked(now, node, gpu, why, occupant.memory_mb, occupant.detail)
    for node, faults in state.cleared.items():
        for fault in faults:
            yield Cordoned(now, node, Reason.NODE_UNHEALTHY, fault)
            yield Uncordoned(now, node, Reason.NODE_UNHEALTHY)
    for (node, why), closure in state.closed.items():
        yield Cordoned(now, node, why, closure.detail)
    planned_at = None if state.planned_at == float("-inf") else state.planned_at
    yield StateSnapshot(
        now, tuple(state.active), tuple(state.waiting), tuple(state.ended), *state.ties, tuple(state.paused.items()),
        planned_at,
        state.pending, state.highest_id,
    )  # fmt: skip


def _job_snapshot(now: Seconds, job: JobState) -> JobSnapshot:
    values = {name: getattr(job, name) for name in COPIED}
    differs = job.status in ACTIVE and job.allocation.memory_mb != job.shape.memory_mb
    allocated = job.allocation.memory_mb if differs else None
    return JobSnapshot(now, job.job, **values, unmet_dependencies=tuple(job.unmet_dependencies), allocated_mb=allocated)


def restore_job(state: State, fact: JobSnapshot) -> bool:
    if fact.job.id in state.jobs:
        return False
    job = JobState(fact.job, fact.seq, fact.submitted_at)
    for name in COPIED:
        setattr(job, name, getattr(fact, name))
    job.unmet_dependencies.update(dict.fromkeys(fact.unmet_dependencies))
    if job.exclusive:
        job.shape, job.wanted_share = exclusive_shape(fact.job, job.measured_mb), WHOLE
    if state.timed:
        apply_need(state, job)
    state.resources.recent.add(job.shape)
    state.jobs[job.id] = state.touched[job.id] = job
    if job.status in ACTIVE:
        _allocate(state, job, fact)
    elif job.status in ENDED:
        state.ended[job.id] = job
        if job.status == "done":
            state.durations.learn(job.job, job.attained_s)
    elif job.status == "waiting":
        state.line(job)[job.id] = job
    if job.job.replica is not None:
        state.services.add(job)
    if job.reclaimed_at is not None:
        state.teams.reclaimed[job.id] = job.reclaimed_at
    state.eligibility.restore(job)
    return True


def _allocate(state: State, job: JobState, fact: JobSnapshot) -> None:
    job.allocation = job.shape
    if fact.share is not job.wanted_share and fact.share != job.wanted_share:
        job.allocation = shape_of_weave((job.shape,), fact.share, job.job.where)
    if fact.allocated_mb is not None and not fact.allocated_mb.differs:
        job.allocation = with_memory(job.allocation, fact.allocated_mb.max)
    # as it happened: the job held its GPUs before it began to release them
    releasing, job.releasing = job.releasing, False
    state.resources.hold(job, job.slots, restored=True)
    if releasing:
        job.releasing = True
        state.resources.begin_release(job, job.slots)
    if (job.cancelling or job.lost) and not releasing:
        state.orphans[job.id] = job
    state.active[job.id] = job


def restore_state(state: State, fact: StateSnapshot) -> bool:
    """Restore the order of jobs, the counters and the pauses."""
    state.active = {job: state.jobs[job] for job in fact.active}
    state.waiting = {job: state.jobs[job] for job in fact.waiting}
    state.ended = {job: state.jobs[job] for job in fact.ended}
    state.ties = (fact.tail_counter, fact.front_counter, fact.run_counter)
    state.paused, state.pending = dict(fact.paused), fact.pending
    state.highest_id = fact.highest_id
    state.planned_at = float("-inf") if fact.planned_at is None else fact.planned_at
    return True
