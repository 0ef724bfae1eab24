"""Plans: what to start and what to stop.

`walk_keys` serves key policies: one walk over the waiting, best first; each is placed, or room is made for it, or it is
skipped. `walk_asks` does the same for a replanner's asks, keeping what already runs as asked. `repack` empties the
cluster in thought and places everything anew, as Muri does; `towards` turns such a target into decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from weft.core.floor import Holder, Room
from weft.core.free import Free
from weft.core.job import JobState
from weft.core.order import Heads, Order, Streams
from weft.core.ports import Ask, Placement
from weft.core.reach import Reach
from weft.core.scratch import Parts, Scratch, node_for_cpus, pinned_slots, slots_of
from weft.core.shapes import Shape, pinned_shape, shape_of_weave
from weft.core.state import State
from weft.model import WHOLE, Decision, JobId, Reserve, Share, Slots, Start, Stop, StopReason

Decide = Callable[[Decision], None]


@dataclass(slots=True)
class Clearing:
    """Room that could be made: where, and who would have to go."""

    parts: Parts | None
    """None: not even with all of them gone."""
    gone: dict[Holder, None]
    free: Free
    forced: tuple[JobState, ...]
    """Those who go in any case, because they are to run otherwise."""


class Walk:
    """One pass over what is wanted, with the GPUs promised on the way."""

    def __init__(self, state: State, placement: Placement, decide: Decide) -> None:
        self.state, self.floor, self.placement, self.decide = state, state.floor, placement, decide
        self.promised: dict[int, int] = {}
        self.anywhere: bool = getattr(placement, "anywhere", False)

    def start(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Starts them together if idle GPUs suffice."""
        slots = self._idle_slots(shape)
        if slots is None:
            return False
        weave = tuple(sorted(job.id for job in jobs)) if len(jobs) > 1 else ()
        for job in jobs:
            self.decide(Start(self.state.now, job.id, job.run + 1, slots, share, weave))
        return True

    def fits(self, shape: Shape) -> bool:
        """Whether idle GPUs suffice."""
        return self._idle_slots(shape) is not None

    def promise(self, shape: Shape) -> bool:
        """Promises GPUs that are being vacated, so that nobody behind takes them."""
        if not self.floor.leaving or not shape.gpus:
            return False
        parts = self.placement.place(shape, self._soon(shape))
        return self._promise(parts)

    def clear(self, shape: Shape, victims: Iterator[JobState], forced: tuple[JobState, ...] = ()) -> Clearing:
        """Finds the worst of the runs that may be stopped whose GPUs would suffice."""
        gone: dict[Holder, None] = {}
        free = self._soon(shape)
        first = None if forced else next(victims, None)
        if first is None and not forced:
            return Clearing(None, gone, free, forced)
        free = free if self.promised else free.copy()
        for victim in chain(forced, () if first is None else (first,), victims):
            gone[victim] = None
            enough = self._vacate(free, shape, victim, gone)
            if enough and len(gone) >= len(forced):
                parts = self.placement.place(shape, free)
                if parts is not None:
                    return Clearing(parts, gone, free, forced)
        return Clearing(None, gone, free, forced)

    def make_room(self, shape: Shape, clearing: Clearing) -> bool:
        """Stops those of the found that must go, and promises their GPUs; False where none were found."""
        if clearing.parts is None:
            return False
        for victim in self.spare(shape, clearing):
            why: StopReason = "moved" if victim in clearing.forced else "preempted"
            self.decide(Stop(self.state.now, victim.id, victim.run, why))
        return self._promise(clearing.parts)

    # ---- inside

    def _vacate(self, free: Free, shape: Shape, victim: JobState, gone: Collection[Holder]) -> bool:
        """Counts a victim's GPUs as free; whether they may now be enough."""
        need, enough = shape.gpus, False
        for node_id, gpus in victim.slots:
            room = self.floor.by_id[node_id]
            if shape.plain:
                freed = sum(len(room.holders[gpu]) == 1 or goes(room.holders[gpu], gone) for gpu in gpus)
                free.change(room.index, freed)
            else:
                self._recount(free, room, shape, gone)
            enough = enough or free.count[room.index] >= need
        splits = self.anywhere or need > free.largest()
        return enough or (splits and free.total() >= need)

    def _recount(self, free: Free, room: Room, shape: Shape, gone: Collection[Holder]) -> None:
        if shape.plain:
            count = sum(goes(holders, gone) for holders in room.holders)
        else:
            count = self.floor.count_for(room, shape, soon=True, gone=gone)
        count = max(count - self.promised.get(room.index, 0), 0)
        free.change(room.index, count - free.count[room.index])

    def spare(self, shape: Shape, clearing: Clearing) -> list[JobState]:
        """The victims that must really go, worst first: the best are let off while the rest suffices."""
        nodes, gone, free = dict(clearing.parts or ()), clearing.gone, clearing.free
        if len(gone) == 1:
            return [job for job in gone if isinstance(job, JobState)]
        for victim in reversed(list(gone)):
            if not isinstance(victim, JobState) or victim in clearing.forced:
                continue
            rooms = [self.floor.by_id[node] for node, _ in victim.slots]
            rooms = [room for room in rooms if room.index in nodes]
            del gone[victim]
            for room in rooms:
                self._recount(free, room, shape, gone)
            if any(free.count[room.index] < nodes[room.index] for room in rooms):
                gone[victim] = None
                for room in rooms:
                    self._recount(free, room, shape, gone)
        return sorted((job for job in gone if isinstance(job, JobState)), key=lambda job: job.stamp, reverse=True)

    def _promise(self, parts: Parts | None) -> bool:
        for node, count in parts or ():
            self.promised[node] = self.promised.get(node, 0) + count
        return parts is not None

    def _soon(self, shape: Shape) -> Free:
        free = self.floor.free_for(shape, soon=True)
        if self.promised:
            free = free.copy()
            for node, count in self.promised.items():
                free.change(node, -min(count, free.count[node]))
        return free

    def _idle(self, shape: Shape) -> Free:
        """What is idle and not promised to somebody who waits for more."""
        free = self.floor.free_for(shape, soon=False)
        if self.promised:
            free, soon = free.copy(), self.floor.soon.count
            for node, count in self.promised.items():
                left = min(free.count[node], max(soon[node] - count, 0))
                free.change(node, left - free.count[node])
        return free

    def _idle_slots(self, shape: Shape) -> Slots | None:
        if shape.family.where.pinned:
            return pinned_slots(self.floor, shape)
        if not shape.gpus:
            return node_for_cpus(self.floor, shape)
        parts = self.placement.place(shape, self._idle(shape))
        return None if parts is None else slots_of(self.floor, shape, parts, self.placement)


def walk_keys(state: State, order: Order, reach: Reach, placement: Placement, decide: Decide) -> None:
    """One walk for key policies: place, make room or skip, best first."""
    policy, floor = order.policy, state.floor
    if not policy.preempts and not any(floor.soon.levels[1:]) and order.all_want_whole_gpus():
        return
    nothing_new = reach.settled_at == floor.version and not order.rising and not floor.leaving
    walk, heads = Walk(state, placement, decide), order.heads(floor.soon.top, fresh=nothing_new and policy.backfill)
    known = policy.preempts and not walk.anywhere
    for key, stamp, job in heads:
        shape = job.shape
        if not (known and reach.hopeless(shape, key, stamp)):
            if walk.start((job,), shape, job.job.share):
                continue
            if floor.leaving and walk.promise(shape):
                continue
            if policy.preempts and shape.gpus and _make_room(walk, order, reach, shape, key, stamp):
                continue
        if not policy.backfill:
            return
        heads.fail(shape)
    reach.settled_at = floor.version


def _make_room(walk: Walk, order: Order, reach: Reach, shape: Shape, key: float, stamp: int) -> bool:
    clearing = walk.clear(shape, order.worst(walk.state.now, (key, stamp)))
    if clearing.parts is None:
        reach.learn(shape, key, stamp, clearing.free, walk.promised)
    return walk.make_room(shape, clearing)


def start_asks(state: State, asks: Iterable[Ask], placement: Placement, decide: Decide) -> None:
    """For replanners that never stop anybody: each ask starts, or keeps what it reserves, before the next is made."""
    walk = Walk(state, placement, decide)
    for ask in asks:
        if ask.reserve:
            decide(Reserve(state.now, ask.jobs[0], ask.where.pinned))
        else:
            jobs = tuple(state.jobs[job] for job in ask.jobs)
            walk.start(jobs, _shape(ask, jobs), ask.share)


def walk_asks(state: State, asks: list[Ask], placement: Placement, decide: Decide) -> list[tuple[JobId, ...]]:
    """The walk for a replanner's asks: what runs as asked stays where it is. Returns those that have to wait."""
    walk, pending = Walk(state, placement, decide), []
    rank = {job: place for place, ask in enumerate(asks) for job in ask.jobs}
    for place, ask in enumerate(asks):
        jobs = tuple([state.jobs[job] for job in ask.jobs])
        running = tuple([job for job in jobs if job.active])
        if running and _as_asked(ask, jobs):
            continue
        shape = _shape(ask, jobs)
        if any(job.leaving for job in jobs):
            walk.promise(shape)
        elif not running and walk.start(jobs, shape, ask.share):
            continue
        elif shape.gpus and (running or not walk.promise(shape)):
            walk.make_room(shape, walk.clear(shape, _later(state, rank, place, ask), forced=running))
        if not ask.where.pinned:
            pending.append(ask.jobs)
    return pending


def go_on(state: State, order: Order | None, placement: Placement, decide: Decide) -> None:
    """Between two plans: what was planned starts as GPUs are vacated; with an order, idle ones go to who is next."""
    walk = Walk(state, placement, decide)
    for ids in state.pending:
        jobs = tuple([state.jobs[job] for job in ids])
        if any(job.status != "waiting" and not job.leaving for job in jobs):
            continue
        share = jobs[0].job.share if len(jobs) == 1 else WHOLE
        shape = shape_of_weave([job.shape for job in jobs], share, jobs[0].job.where)
        if any(job.leaving for job in jobs) or not walk.start(jobs, shape, share):
            walk.promise(shape)
    heads = order.heads(state.floor.soon.top) if order is not None else ()
    for _, _, job in heads:
        if not walk.start((job,), job.shape, job.job.share) and isinstance(heads, Heads):
            heads.fail(job.shape)


def _shape(ask: Ask, jobs: tuple[JobState, ...]) -> Shape:
    if ask.where.pinned:
        return pinned_shape(jobs[0].shape, ask.share, ask.where)
    return shape_of_weave([job.shape for job in jobs], ask.share, jobs[0].job.where)


def _as_asked(ask: Ask, jobs: tuple[JobState, ...]) -> bool:
    weave = tuple(sorted(ask.jobs)) if len(ask.jobs) > 1 else ()
    return all(job.active and job.weave == weave and job.slots == jobs[0].slots for job in jobs)


def _later(state: State, rank: dict[JobId, int], place: int, ask: Ask) -> Iterator[JobState]:
    """Runs that are wanted less than this ask, the least wanted first."""
    last = len(rank) + 1
    worse = [
        job
        for job in state.active.values()
        if not job.leaving and rank.get(job.id, last) > place and job.id not in ask.jobs
    ]
    worse.sort(key=lambda job: (rank.get(job.id, last), job.stamp), reverse=True)
    return iter(worse)


def goes(holders: Collection[Holder], gone: Collection[Holder]) -> bool:
    """Whether all who hold a GPU leave or would have to."""
    return all(holder.leaving or holder in gone for holder in holders)


# ---- planning from an empty cluster


@dataclass(slots=True)
class Seat:
    """A place in a target: these jobs on these GPUs."""

    jobs: tuple[JobState, ...]
    shape: Shape
    slots: Slots
    share: Share
    weave: tuple[JobId, ...]


Wanted = Iterable[tuple[tuple[JobState, ...], Shape, Share]]
"""Jobs to run together, what they need together, and the share they hold."""


def repack(state: State, wanted: Wanted, placement: Placement, fail: Callable[[Shape], None]) -> list[Seat]:
    """The target in which everything wanted, in that order, sits on an emptied cluster where it fits."""
    scratch, chosen = Scratch(state, placement), []
    for jobs, shape, share in wanted:
        slots = scratch.seat(shape)
        if slots is None:
            fail(shape)
            continue
        weave = tuple(sorted([job.id for job in jobs])) if len(jobs) > 1 else ()
        chosen.append(Seat(jobs, shape, slots, share, weave))
    if getattr(placement, "anywhere", False):
        _stay(Scratch(state, placement), chosen)
    return chosen


def _stay(scratch: Scratch, chosen: list[Seat]) -> None:
    """The same choice where any GPUs will do: what runs stays on those it has."""
    for seat in chosen:
        if seat.jobs[0].active:
            seat.slots = seat.jobs[0].slots
            scratch.keep(seat.shape, seat.slots)
    for seat in chosen:
        if not seat.jobs[0].active:
            seat.slots = scratch.seat(seat.shape) or seat.slots


def solo(heads: Streams) -> Wanted:
    return (((job,), job.shape, job.job.share) for _, _, job in heads)


def as_wanted(state: State, asks: Iterable[Ask]) -> Wanted:
    for ask in asks:
        jobs = tuple([state.jobs[job] for job in ask.jobs])
        yield jobs, _shape(ask, jobs), ask.share


def towards(state: State, target: list[Seat], decide: Decide) -> None:
    """Stops what is not in the target, then, once all that has left, starts the rest."""
    seats = {job.id: seat for seat in target for job in seat.jobs}
    stops: list[tuple[JobState, StopReason]] = []
    for job in state.active.values():
        seat = seats.get(job.id)
        if job.leaving or (seat is not None and seat.slots == job.slots and seat.weave == job.weave):
            continue
        stops.append((job, "preempted" if seat is None else "moved"))
    for job, why in sorted(stops, key=lambda stop: stop[0].stamp, reverse=True):
        decide(Stop(state.now, job.id, job.run, why))
    if state.floor.leaving:
        return
    starts = [(job, seat) for seat in target for job in seat.jobs if job.status == "waiting"]
    for job, seat in sorted(starts, key=lambda start: start[0].stamp):
        decide(Start(state.now, job.id, job.run + 1, seat.slots, seat.share, seat.weave))
