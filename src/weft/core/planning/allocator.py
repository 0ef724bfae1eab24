"""One pass over what is wanted: start it, promise it GPUs that are being vacated, or make room for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from weft.core.planning.tentative import Parts, node_for_cpus, pinned_slots, slots_of
from weft.core.ports import Placement
from weft.core.resources.free import Free, members
from weft.core.resources.node import Holder, Room
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model import Decision, Seconds, Share, Slots, Start, Stop, StopReason

Decide = Callable[[Decision], None]
NEVER = float("inf")


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
    """Passes over what is wanted, each with the GPUs promised on the way."""

    def __init__(self, state: State, placement: Placement, decide: Decide) -> None:
        self.state, self.floor, self.placement, self.decide = state, state.floor, placement, decide
        self.promised: dict[int, int] = {}
        self.anywhere: bool = getattr(placement, "anywhere", False)
        self._looks: bool = getattr(placement, "looks", False)

    def begin(self) -> None:
        """Another pass: nothing is promised yet."""
        self.promised = {}

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

    def full(self) -> bool:
        """Whether every GPU is held by somebody who stays, or promised."""
        soon, promised = self.floor.soon, self.promised
        if not promised:
            return soon.exhausted()
        return all(soon.count[node] <= promised.get(node, 0) for node in members(soon.at_least(1)))

    def promise(self, shape: Shape) -> bool:
        """Promises GPUs that are being vacated, so that nobody behind takes them."""
        if not self.floor.leaving or not shape.gpus:
            return False
        parts = self.placement.place(shape, self._soon(shape))
        return self._promise(parts)

    def reserve(self, shape: Shape, soonest: Iterator[JobState]) -> Seconds:
        """Promises the GPUs of runs that end soonest, as far as anybody knows; returns when, or never."""
        now = self.state.now
        clearing = self.clear(shape, soonest) if shape.gpus else Clearing(None, {}, self.floor.soon, ())
        if clearing.parts is None:
            return NEVER
        needed = self.spare(shape, clearing)
        self._promise(clearing.parts)
        return now + max((run.ends_in(now) for run in needed), default=0.0)

    def start_meanwhile(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Starts jobs on promised GPUs: they will be gone before these are needed."""
        promised, self.promised = self.promised, {}
        started = self.start(jobs, shape, share)
        self.promised = promised
        return started

    def would_fit(self, shape: Shape) -> bool:
        """Whether idle GPUs would suffice were none promised."""
        promised, self.promised = self.promised, {}
        fits = self.fits(shape)
        self.promised = promised
        return fits

    def clear(self, shape: Shape, victims: Iterator[JobState], forced: tuple[JobState, ...] = ()) -> Clearing:
        """Finds the worst of the runs that may be stopped whose GPUs would suffice."""
        gone: dict[Holder, None] = {}
        free = self._soon(shape)
        first = None if forced else next(victims, None)
        if first is None and not forced:
            return Clearing(None, gone, free, forced)
        free = free if self.promised else free.copy()
        free.gone = gone
        splits = self.anywhere or shape.gpus > free.largest()
        missing = shape.gpus - free.total() if splits else 0
        for victim in chain(forced, () if first is None else (first,), victims):
            gone[victim] = None
            enough = self._vacate(free, shape, victim, gone)
            missing -= victim.shape.gpus  # at most: others may hold the same GPUs
            if splits and not enough and (missing <= 0 or not shape.plain):
                missing = shape.gpus - free.total()
                enough = missing <= 0
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
        """Counts a victim's GPUs as free; whether a node may now have enough."""
        need, enough = shape.gpus, False
        for node_id, gpus in victim.slots:
            room = self.floor.by_id[node_id]
            if shape.plain:
                freed, holders = 0, room.holders
                for gpu in gpus:
                    freed += len(holders[gpu]) == 1 or goes(holders[gpu], gone)
                free.change(room.index, freed)
            else:
                self._recount(free, room, shape, gone)
            enough = enough or free.count[room.index] >= need
        return enough

    def _recount(self, free: Free, room: Room, shape: Shape, gone: Collection[Holder]) -> None:
        if shape.plain:
            count = 0
            for holders in room.holders:
                for holder in holders:
                    if not holder.leaving and holder not in gone:
                        break
                else:
                    count += 1
        else:
            count = room.count_for(shape, soon=True, gone=gone)
        count = max(count - self.promised.get(room.index, 0), 0)
        free.change(room.index, count - free.count[room.index])

    def spare(self, shape: Shape, clearing: Clearing) -> list[JobState]:
        """The victims that must really go, worst first: the best are let off while the rest suffices."""
        nodes, gone, free = dict(clearing.parts or ()), clearing.gone, clearing.free
        if len(gone) == 1:
            return [job for job in gone if isinstance(job, JobState)]
        by_id = self.floor.by_id
        for victim in reversed(list(gone)):
            if not isinstance(victim, JobState) or victim in clearing.forced:
                continue
            rooms = [room for node, _ in victim.slots if (room := by_id[node]).index in nodes or self._looks]
            del gone[victim]
            if not rooms:
                continue
            for room in rooms:
                self._recount(free, room, shape, gone)
            if not self._still_fits(shape, clearing, rooms, nodes):
                gone[victim] = None
                for room in rooms:
                    self._recount(free, room, shape, gone)
        return sorted((job for job in gone if isinstance(job, JobState)), key=lambda job: job.stamp, reverse=True)

    def _still_fits(self, shape: Shape, clearing: Clearing, rooms: list[Room], nodes: dict[int, int]) -> bool:
        """Whether the placement would still put it there; one that looks at who is where is asked."""
        if self._looks:
            return self.placement.place(shape, clearing.free) == clearing.parts
        return all(clearing.free.count[room.index] >= nodes[room.index] for room in rooms)

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


def goes(holders: Collection[Holder], gone: Collection[Holder]) -> bool:
    """Whether all who hold a GPU leave or would have to."""
    return all(holder.leaving or holder in gone for holder in holders)
