"""A state as facts that are fewer than those it came from, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from weft.core.resources.shapes import alone, shape_of_weave, with_memory
from weft.core.state.job import ACTIVE, ENDED, JobState
from weft.model import Blocked, Closed, Fact, Limited, NodeJoined, NodeLost, Past, Recalled, Restored

if TYPE_CHECKING:
    from weft.core.state.state import State

PLAIN: Final = tuple(field.name for field in fields(Past) if field.name not in ("behind", "seat_mb"))
"""Fields that a job's state has under the same name."""


def snapshot(state: State) -> Iterator[Fact]:
    """Facts that add up to the same state. A replanner's own memory is not among it."""
    now = state.now
    for room in state.floor.rooms:
        yield NodeJoined(now, room.node)
        if not room.alive:  # it keeps its place: nodes are looked at in the order in which they first joined
            yield NodeLost(now, room.node.id)
    for user, gpus in state.gates.limits.items():
        yield Limited(now, user, gpus)
    for job in state.jobs.values():
        yield Recalled(now, job.job, _past(job))
    for (node, gpu, why), occupant in state.occupants.items():
        yield Blocked(now, node, gpu, why, occupant.memory_mb, occupant.detail)
    for (node, why), closure in state.closed.items():
        yield Closed(now, node, why, closure.detail)
    planned_at = None if state.planned_at == float("-inf") else state.planned_at
    yield Restored(
        now, tuple(state.active), tuple(state.waiting), tuple(state.ended), *state.stamps, tuple(state.paused.items()),
        planned_at,
        state.pending, state.highest_id,
    )  # fmt: skip


def _past(job: JobState) -> Past:
    values = {name: getattr(job, name) for name in PLAIN}
    seat = job.seat.memory_mb if job.status in ACTIVE and job.seat.memory_mb != job.shape.memory_mb else None
    return Past(**values, behind=tuple(job.behind), seat_mb=seat)


def recalled(state: State, fact: Recalled) -> bool:
    if fact.job.id in state.jobs:
        return False
    past = fact.past
    job = JobState(fact.job, past.seq, past.submitted_at)
    for name in PLAIN:
        setattr(job, name, getattr(past, name))
    job.behind.update(dict.fromkeys(past.behind))
    if job.alone:
        job.shape = alone(fact.job, job.measured_mb)
    state.remember(job.shape)
    state.jobs[job.id] = state.touched[job.id] = job
    if job.status in ACTIVE:
        _seat(state, job, past)
    elif job.status in ENDED:
        state.ended[job.id] = job
    elif job.status == "waiting":
        state.waiting[job.id] = job
    state.gates.recall(job)
    return True


def _seat(state: State, job: JobState, past: Past) -> None:
    job.seat = job.shape
    if past.share is not job.wanted_share and past.share != job.wanted_share:
        job.seat = shape_of_weave((job.shape,), past.share, job.job.where)
    if isinstance(past.seat_mb, int):
        job.seat = with_memory(job.seat, past.seat_mb)
    leaving, job.leaving = job.leaving, False
    state.floor.hold(job, job.slots)
    if leaving:
        job.leaving = True
        state.floor.leave(job, job.slots)
    if (job.cancelling or job.lost) and not leaving:
        state.orphans[job.id] = job
    state.active[job.id] = job


def restored(state: State, fact: Restored) -> bool:
    """Puts all in the order it was in."""
    state.active = {job: state.jobs[job] for job in fact.active}
    state.waiting = {job: state.jobs[job] for job in fact.waiting}
    state.ended = {job: state.jobs[job] for job in fact.ended}
    state.stamps = (fact.tail, fact.front, fact.runs)
    state.paused, state.pending = dict(fact.paused), fact.pending
    state.highest_id = fact.highest_id
    state.planned_at = float("-inf") if fact.planned_at is None else fact.planned_at
    return True
