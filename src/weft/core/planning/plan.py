"""Plans: what to start and what to stop.

`walk_keys` serves key policies: one walk over the waiting, best first; each is placed, or room is made for it, or it is
skipped. `backfill` is the same where nobody may be stopped. `walk_asks` serves a replanner's asks, keeping what already
runs as asked; `go_on` is what happens until its next plan; `start_asks` is for replanners that never stop anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.core.planning.allocator import Walk
from weft.core.planning.asks import ask_shape, jobs_of, refuse_twice
from weft.core.planning.backfill import Easy
from weft.core.planning.preemption_cache import Reach
from weft.core.ports import Ask
from weft.core.queue.cursors import Heads, Walked
from weft.core.queue.order import Order, Protection
from weft.core.resources.shapes import Shape, shape_of_weave
from weft.core.state.job import JobState
from weft.model import WHOLE, JobId, Reserve

NOBODY = 1 << 60
"""The rank of a run that nobody asks for."""
BACKFILL_DEPTH = 500
"""How many of those who wait are looked at in vain: the first of them gets the reservation."""


def walk_keys(walk: Walk, order: Order, reach: Reach) -> None:
    """One walk for key policies: place, make room or skip, best first."""
    policy, floor, now = order.policy, walk.floor, walk.state.now
    only_whole = order.all_want_whole_gpus()
    if not policy.preempts and only_whole and floor.soon.exhausted():
        return
    if policy.backfill and not policy.preempts:
        backfill(walk, order)
        return
    if not policy.preempts and reach.still_blocked():
        return
    settled = reach.settled_at == floor.changes.version and not order.rising and not floor.leaving
    nothing_new = settled and only_whole
    heads = order.heads(floor.soon.top, fresh=nothing_new and policy.backfill)
    walk.begin()
    known = policy.preempts and not walk.anywhere
    for key, stamp, job in heads:
        if only_whole and walk.full() and not order.anybody_worse(now, key, stamp):
            break  # nor is there for those behind
        shape = job.shape
        if not (known and reach.hopeless(shape, key, stamp)):
            if walk.start((job,), shape, job.wanted_share):
                continue
            if floor.leaving and walk.promise(shape):
                continue
            if policy.preempts and shape.gpus and _make_room(walk, order, reach, shape, key, stamp):
                continue
        if not policy.backfill and not reach.impossible(shape, walk.placement):
            reach.block(job)
            return
        heads.fail(shape)
    reach.settled_at = floor.changes.version


def backfill(walk: Walk, order: Order) -> None:
    """The same where nobody may be stopped: as EASY has it."""
    walk.begin()
    heads, easy = order.heads(walk.floor.soon.top), Easy(walk, order)
    in_vain = 0
    for _, _, job in heads:
        if easy.start((job,), job.shape, job.wanted_share):
            continue
        if job.shape in easy.hopeless:
            heads.fail(job.shape)
        in_vain += 1
        if in_vain > BACKFILL_DEPTH:
            return


def _make_room(walk: Walk, order: Order, reach: Reach, shape: Shape, key: float, stamp: int) -> bool:
    clearing = walk.clear(shape, order.worst(walk.state.now, (key, stamp)))
    if clearing.parts is None:
        reach.learn(shape, key, stamp, clearing.free, walk.promised)
    return walk.make_room(shape, clearing)


def start_asks(walk: Walk, order: Order, asks: Iterable[Ask]) -> None:
    """For replanners that never stop anybody: each ask starts, or keeps what it reserves, before the next is made.

    EASY holds for those that name no GPUs: the first that does not fit is not delayed by those behind.
    """
    walk.begin()
    easy = Easy(walk, order)
    for ask in asks:
        if ask.reserve:
            walk.decide(Reserve(walk.state.now, ask.jobs[0], ask.where.pinned))
            continue
        jobs = jobs_of(walk.state, ask)
        shape = ask_shape(ask, jobs)
        if ask.where.pinned:
            walk.start(jobs, shape, ask.share)
        else:
            easy.start(jobs, shape, ask.share)


def walk_asks(walk: Walk, asks: list[Ask], protection: Protection) -> list[tuple[JobId, ...]]:
    """The walk for a replanner's asks: what runs as asked stays. Returns those that GPUs are vacated for."""
    walk.begin()
    state, pending, hopeless = walk.state, [], Walked(walk.floor.soon.top)
    rank = {job: place for place, ask in enumerate(asks) for job in ask.jobs}
    if len(rank) < sum(len(ask.jobs) for ask in asks):
        refuse_twice(asks)
    able = (run for run in state.active.values() if protection.until(run) <= state.now)
    runs = sorted(able, key=lambda job: (rank.get(job.id, NOBODY), job.stamp), reverse=True)
    for place, ask in enumerate(asks):
        jobs = jobs_of(state, ask)
        running = tuple([job for job in jobs if job.active])
        shape = ask_shape(ask, jobs)
        if running and _as_asked(ask, jobs):
            continue
        if not running and (hopeless.dropped(shape) or walk.start(jobs, shape, ask.share)):
            continue
        if any(job.leaving for job in jobs):
            promised = walk.promise(shape)
        elif not running and walk.promise(shape):
            promised = True
        else:
            victims = _less_wanted(runs, rank, place, ask)
            promised = bool(shape.gpus) and walk.make_room(shape, walk.clear(shape, victims, forced=running))
        if ask.where.pinned:
            continue
        if promised:
            pending.append(ask.jobs)
        elif not running:
            hopeless.fail(shape)
    return pending


def _less_wanted(runs: list[JobState], rank: dict[JobId, int], place: int, ask: Ask) -> Iterator[JobState]:
    """Of the runs, the least wanted first, those that stay so far and are wanted less than this ask."""
    for job in runs:
        if rank.get(job.id, NOBODY) <= place:
            return
        if not job.leaving and job.id not in ask.jobs:
            yield job


def go_on(walk: Walk, order: Order | None) -> None:
    """Between two plans: what was planned starts as GPUs are vacated; with an order, idle ones go to who is next."""
    walk.begin()
    state = walk.state
    for ids in state.pending:
        jobs = tuple([state.jobs[job] for job in ids])
        if any(job.status != "waiting" and not job.leaving for job in jobs):
            continue
        share = jobs[0].wanted_share if len(jobs) == 1 else WHOLE
        shape = shape_of_weave([job.shape for job in jobs], share, jobs[0].job.where)
        if any(job.leaving for job in jobs) or not walk.start(jobs, shape, share):
            walk.promise(shape)
    heads = order.heads(state.floor.soon.top) if order is not None else ()
    for _, _, job in heads:
        if not walk.start((job,), job.shape, job.wanted_share) and isinstance(heads, Heads):
            heads.fail(job.shape)


def _as_asked(ask: Ask, jobs: tuple[JobState, ...]) -> bool:
    weave = tuple(sorted(ask.jobs)) if len(ask.jobs) > 1 else ()
    return all(job.active and job.weave == weave and job.slots == jobs[0].slots for job in jobs)
