"""Plans: what to start and what to stop.

`walk_keys` serves key policies: one walk over the waiting, best first; each is placed, or room is made for it, or it is
skipped. `backfill` is the same where nobody may be stopped. `walk_asks` serves a replanner's asks, keeping what already
runs as asked; `go_on` is what happens until its next plan; `start_asks` is for replanners that never stop anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.core.planning.allocator import Allocator
from weft.core.planning.asks import ask_shape, jobs_of, refuse_twice
from weft.core.planning.backfill import EasyBackfill
from weft.core.planning.preemption_cache import PreemptionCache
from weft.core.ports import Ask
from weft.core.queue.cursors import Cursor, QueueCursor
from weft.core.queue.order import Order, Protection
from weft.core.resources.shapes import Shape, shape_of_weave
from weft.core.state.job import JobState
from weft.model import WHOLE, JobId, Reserve

NOBODY = 1 << 60
"""The rank of a run that nobody asks for."""
BACKFILL_DEPTH = 500
"""How many of those who wait are looked at in vain: the first of them gets the reservation."""


def walk_keys(allocator: Allocator, order: Order, cache: PreemptionCache) -> None:
    """One walk for key policies: place, make room or skip, best first."""
    policy, resources, now = order.policy, allocator.resources, allocator.state.now
    only_whole = order.all_want_whole_gpus()
    if not policy.preempts and only_whole and resources.after_release.exhausted():
        return
    if policy.backfill and not policy.preempts:
        backfill(allocator, order)
        return
    if not policy.preempts and cache.still_blocked():
        return
    settled = cache.settled_at == resources.change_log.version and not order.rising and not resources.releasing
    nothing_new = settled and only_whole
    cursor = order.cursor(resources.after_release.top, fresh=nothing_new and policy.backfill)
    allocator.begin()
    known = policy.preempts and not allocator.splits_gangs
    for key, tie, job in cursor:
        if only_whole and allocator.full() and not order.anybody_worse(now, key, tie):
            break  # nor is there for those behind
        shape = job.shape
        if not (known and cache.hopeless(shape, key, tie)):
            if allocator.start((job,), shape, job.wanted_share):
                continue
            if resources.releasing and allocator.promise(shape):
                continue
            if policy.preempts and shape.gpus and _make_room(allocator, order, cache, shape, key, tie):
                continue
        if not policy.backfill and not cache.impossible(shape, allocator.placement):
            cache.block(job)
            return
        cursor.fail(shape)
    cache.settled_at = resources.change_log.version


def backfill(allocator: Allocator, order: Order) -> None:
    """The same where nobody may be stopped: as EASY has it."""
    allocator.begin()
    cursor, easy = order.cursor(allocator.resources.after_release.top), EasyBackfill(allocator, order)
    in_vain = 0
    for _, _, job in cursor:
        if easy.start((job,), job.shape, job.wanted_share):
            continue
        if job.shape in easy.hopeless:
            cursor.fail(job.shape)
        in_vain += 1
        if in_vain > BACKFILL_DEPTH:
            return


def _make_room(allocator: Allocator, order: Order, cache: PreemptionCache, shape: Shape, key: float, tie: int) -> bool:
    plan = allocator.find_victims(shape, order.worst(allocator.state.now, (key, tie)))
    if plan.parts is None:
        cache.learn(shape, key, tie, plan.free, allocator.promised)
    return allocator.preempt(shape, plan)


def start_asks(allocator: Allocator, order: Order, asks: Iterable[Ask]) -> None:
    """For replanners that never stop anybody: each ask starts, or keeps what it reserves, before the next is made.

    EASY holds for those that name no GPUs: the first that does not fit is not delayed by those behind.
    """
    allocator.begin()
    easy = EasyBackfill(allocator, order)
    for ask in asks:
        if ask.reserve:
            allocator.decide(Reserve(allocator.state.now, ask.jobs[0], ask.where.pinned))
            continue
        jobs = jobs_of(allocator.state, ask)
        shape = ask_shape(ask, jobs)
        if ask.where.pinned:
            allocator.start(jobs, shape, ask.share)
        else:
            easy.start(jobs, shape, ask.share)


def walk_asks(allocator: Allocator, asks: list[Ask], protection: Protection) -> list[tuple[JobId, ...]]:
    """The walk for a replanner's asks: what runs as asked stays. Returns those that GPUs are vacated for."""
    allocator.begin()
    state, pending, hopeless = allocator.state, [], Cursor(allocator.resources.after_release.top)
    rank = {job: place for place, ask in enumerate(asks) for job in ask.jobs}
    if len(rank) < sum(len(ask.jobs) for ask in asks):
        refuse_twice(asks)
    able = (run for run in state.active.values() if protection.until(run) <= state.now)
    runs = sorted(able, key=lambda job: (rank.get(job.id, NOBODY), job.tie_breaker), reverse=True)
    for place, ask in enumerate(asks):
        jobs = jobs_of(state, ask)
        running = tuple([job for job in jobs if job.active])
        shape = ask_shape(ask, jobs)
        if running and _as_asked(ask, jobs):
            continue
        if not running and (hopeless.dropped(shape) or allocator.start(jobs, shape, ask.share)):
            continue
        if any(job.releasing for job in jobs):
            promised = allocator.promise(shape)
        elif not running and allocator.promise(shape):
            promised = True
        else:
            victims = _less_wanted(runs, rank, place, ask)
            promised = bool(shape.gpus) and allocator.preempt(
                shape, allocator.find_victims(shape, victims, forced=running)
            )
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
        if not job.releasing and job.id not in ask.jobs:
            yield job


def go_on(allocator: Allocator, order: Order | None) -> None:
    """Between two plans: what was planned starts as GPUs are vacated; with an order, idle ones go to who is next."""
    allocator.begin()
    state = allocator.state
    for ids in state.pending:
        jobs = tuple([state.jobs[job] for job in ids])
        if any(job.status != "waiting" and not job.releasing for job in jobs):
            continue
        share = jobs[0].wanted_share if len(jobs) == 1 else WHOLE
        shape = shape_of_weave([job.shape for job in jobs], share, jobs[0].job.where)
        if any(job.releasing for job in jobs) or not allocator.start(jobs, shape, share):
            allocator.promise(shape)
    cursor = order.cursor(state.resources.after_release.top) if order is not None else ()
    for _, _, job in cursor:
        if not allocator.start((job,), job.shape, job.wanted_share) and isinstance(cursor, QueueCursor):
            cursor.fail(job.shape)


def _as_asked(ask: Ask, jobs: tuple[JobState, ...]) -> bool:
    weave = tuple(sorted(ask.jobs)) if len(ask.jobs) > 1 else ()
    return all(job.active and job.weave == weave and job.slots == jobs[0].slots for job in jobs)
