"""Which nodes could hold a shape if those who may be stopped for it were.

Most attempts to make room fail, and fail again at the next event. So what a failed attempt found out is remembered per
shape, and only nodes on which something changed since are looked at again. A run's key only gets better while it runs
(unless it is of the rising kind), so an old finding is at worst too hopeful, and the next attempt corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.core.floor import Room
from weft.core.free import Free, members
from weft.core.order import Order
from weft.core.shapes import Shape
from weft.core.state import State

CHANGES = 10_000
"""How many changes are kept before everything is forgotten."""


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
    """How many of the floor's changes it knows of."""


class Reach:
    def __init__(self, state: State, order: Order) -> None:
        self._state, self._order = state, order
        self._findings: dict[Shape, Finding] = {}
        self.settled_at = -1
        """The floor's version after the last walk: while it stays, whoever did not fit does not fit."""
        self._changes: list[int] = []
        if order.policy.preempts:
            state.floor.changes = self._changes

    def hopeless(self, shape: Shape, key: float, stamp: int) -> bool:
        """Whether it is known that no room can be made for a waiting job of this shape and key."""
        floor, changes = self._state.floor, self._changes
        known = self._findings.get(shape) if shape.whole else None
        if known is None or (key, stamp) < (known.key, known.stamp) or self._order.rising:
            return False
        for bit in changes[known.seen :]:
            known.stale |= bit
        for node in members(known.stale):
            if self._can(floor.rooms[node], shape, key, stamp):
                known.able |= 1 << node
            else:
                known.able &= ~(1 << node)
        known.key, known.stamp, known.stale, known.seen = key, stamp, 0, len(changes)
        return known.able.bit_count() < max(shape.gpus // max(floor.soon.top, 1), 1)

    def learn(self, shape: Shape, key: float, stamp: int, free: Free, promised: Iterable[int]) -> None:
        """An attempt failed: `free` is what each node could have given, with all gone that may be stopped."""
        able = free.at_least(min(shape.gpus, free.largest()))
        stale = sum(1 << node for node in promised)
        if len(self._changes) > CHANGES:
            self._changes.clear()
            self._findings.clear()
        self._findings[shape] = Finding(key, stamp, able, stale, len(self._changes))

    def _can(self, room: Room, shape: Shape, key: float, stamp: int) -> bool:
        if not room.alive:
            return False
        line_of, now = self._order.line_of, self._state.now
        spare = len(room.holders) - min(shape.gpus, len(room.holders))
        for holders in room.holders:
            for holder in holders:
                if holder.leaving:
                    continue
                line = line_of.get(holder)  # spelt out, not asked of the order: this is the innermost loop
                if line is None or (line[1] + line[0] * now, line[2]) < (key, stamp):
                    spare -= 1
                    if spare < 0:
                        return False
                    break
        return True
