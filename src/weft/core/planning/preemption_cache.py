"""Which nodes could hold a shape if those who may be stopped for it were.

Most attempts to make room fail, and fail again at the next event. So what a failed attempt found out is remembered per
shape, and only nodes on which something changed since are looked at again. A run's key only gets better while it runs
(unless it is of the rising kind), so an old finding is at worst too hopeful, and the next attempt corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from weft.core.planning.tentative import fits_empty
from weft.core.ports import Placement
from weft.core.queue.order import KEY_ROUNDING, Order
from weft.core.resources.cluster import Floor
from weft.core.resources.free import Free, members
from weft.core.resources.node import Room
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.core.state.state import State


@dataclass(slots=True)
class Finding:
    key: float
    stamp: int
    """It says nothing about anybody better than this."""
    able: int
    """Nodes that could hold the shape, or be emptied for a whole part of it."""
    stale: int
    """Nodes to look at again."""
    seen: int
    """The floor's version when it was last looked at."""


class Reach:
    """With `whole_nodes`, the placement gives gangs that no node could hold whole nodes and one rest."""

    def __init__(self, state: State, order: Order, *, whole_nodes: bool) -> None:
        self._state, self._order, self._whole_nodes = state, order, whole_nodes
        self._findings: dict[Shape, Finding] = {}
        self.settled_at = -1
        """The floor's version after the last walk: while it stays, whoever did not fit does not fit."""
        self._blocked: tuple[JobState, int] | None = None
        """Who held up all others when last looked at, and the floor's version then."""

        self._empty = Floor()
        """The nodes there are, with nobody on them."""
        self._impossible: dict[Shape, bool] = {}
        self._impossible_at = -1

    def block(self, job: JobState) -> None:
        """Nobody starts before this job, and it does not fit."""
        self._blocked = job, self._state.floor.changes.version

    def still_blocked(self) -> bool:
        """Whether the same job holds up all others still: nothing has changed, and nobody better has come."""
        if self._blocked is None or self._order.fresh:
            return False
        job, version = self._blocked
        return job.status == "waiting" and version == self._state.floor.changes.version

    def impossible(self, shape: Shape, placement: Placement) -> bool:
        """Whether the nodes there are could not hold it even if they were empty. It waits for others to join."""
        topology = self._state.floor.topology
        if self._impossible_at != topology:
            self._impossible.clear()
            self._impossible_at, self._empty = topology, self._state.floor.empty_copy()
        found = self._impossible.get(shape)
        if found is None:
            found = self._impossible[shape] = not fits_empty(self._empty, placement, shape)
        return found

    def hopeless(self, shape: Shape, key: float, stamp: int) -> bool:
        """Whether it is known that no room can be made for a waiting job of this shape and key."""
        floor = self._state.floor
        known = self._findings.get(shape)
        if known is None or (key, stamp) < (known.key, known.stamp) or self._order.rising or not self._knows(shape):
            return False
        if known.seen != floor.changes.version or known.stale:
            changed = floor.changes.since(known.seen)
            if changed is None:
                return False
            able, looked_at = known.able, known.stale | changed
            while looked_at:
                bit = looked_at & -looked_at
                looked_at ^= bit
                able = able | bit if self._can(floor.rooms[bit.bit_length() - 1], shape, key, stamp) else able & ~bit
            known.able, known.stale, known.seen = able, 0, floor.changes.version
        known.key, known.stamp = key, stamp
        return not self._suffices(shape, known.able)

    def _knows(self, shape: Shape) -> bool:
        return shape.whole and (self._whole_nodes or shape.gpus <= self._state.floor.soon.top)

    def _suffices(self, shape: Shape, able: int) -> bool:
        """One node that could hold it all; or whole nodes for all but a rest, where no node is large enough."""
        sizes, top = self._state.floor.soon.size, self._state.floor.soon.top
        if shape.gpus <= top or not top:
            return able != 0
        whole = sum(sizes[node] for node in members(able))
        alike = len(self._state.floor.node_sizes) == 1
        return whole + (shape.gpus % top if alike else top) >= shape.gpus

    def learn(self, shape: Shape, key: float, stamp: int, free: Free, promised: Iterable[int]) -> None:
        """An attempt failed: `free` is what each node could have given, with all gone that may be stopped."""
        if shape.gpus <= self._state.floor.soon.top:
            able = free.at_least(shape.gpus)
        else:
            able = sum(1 << node for node in free.idle_nodes())
        stale = sum(1 << node for node in promised)
        self._findings[shape] = Finding(key, stamp, able, stale, self._state.floor.changes.version)

    def _can(self, room: Room, shape: Shape, key: float, stamp: int) -> bool:
        if not room.alive:
            return False
        line_of, now = self._order.line_of, self._state.now
        whole = shape.gpus > self._state.floor.soon.top
        spare = 0 if whole else len(room.holders) - shape.gpus
        if spare < 0:
            return False
        for holders in room.holders:
            for holder in holders:
                if holder.leaving:
                    continue
                line = line_of.get(holder)  # spelt out, not asked of the order: this is the innermost loop
                own = line[1] + line[0] * now if line is not None else -inf
                if own < key - KEY_ROUNDING or (own <= key + KEY_ROUNDING and line is not None and line[2] < stamp):
                    spare -= 1
                    if spare < 0:
                        return False
                    break
        return True
