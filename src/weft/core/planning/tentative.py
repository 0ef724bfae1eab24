"""From counts to GPUs, on the real floor or tentatively on an emptied copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.core.ports import Placement
from weft.core.resources.cluster import Floor
from weft.core.resources.node import Room
from weft.core.resources.shapes import Shape
from weft.core.state.state import State
from weft.errors import PlanError
from weft.model import JobId, Slots

Parts = tuple[tuple[int, int], ...]
"""How many GPUs on which node."""


@dataclass(slots=True, eq=False)
class Sitter:
    """Holds GPUs of a scratch floor."""

    seat: Shape
    placed: Slots
    leaving: bool = False
    weave: tuple[JobId, ...] = ()


class Scratch:
    """An emptied copy of the floor to place on tentatively. Whole GPUs need no more than counting and a bit each."""

    def __init__(self, state: State, placement: Placement) -> None:
        self._real, self.placement = state.floor, placement
        self._free = state.floor.emptied()
        self._taken = [0] * len(state.floor.rooms)
        self._seated: list[tuple[Shape, Slots]] = []
        self._full: Floor | None = None
        self._looks = getattr(placement, "looks", False)

    def fits(self, shape: Shape) -> bool:
        return self.seat(shape) is not None

    def seat(self, shape: Shape) -> Slots | None:
        """Takes the GPUs that the placement gives this shape; None where it gives none."""
        if not shape.gpus:
            return node_for_cpus(self.floor(), shape)
        if not shape.plain or self._full is not None or self._looks:
            return self._seat_with_care(shape)
        parts = self.placement.place(shape, self._free)
        if parts is None:
            return None
        slots = tuple((self._real.rooms[node].node.id, self._pick(node, count)) for node, count in parts)
        self.keep(shape, slots)
        return slots

    def keep(self, shape: Shape, slots: Slots) -> None:
        """Takes these GPUs."""
        self._seated.append((shape, slots))
        if self._full is not None:
            self._full.hold(Sitter(shape, slots), slots)
            return
        for node_id, gpus in slots:
            node = self._real.by_id[node_id].index
            self._free.change(node, -len(gpus))
            for gpu in gpus:
                self._taken[node] |= 1 << gpu

    def vacant(self, slots: Slots) -> bool:
        """Whether nobody has taken any of these whole GPUs."""
        rooms = self._real.by_id
        return not any(self._taken[rooms[node].index] >> gpu & 1 for node, gpus in slots for gpu in gpus)

    def floor(self) -> Floor:
        """The whole of it, holders and all."""
        if self._full is None:
            self._full = self._real.empty_copy()
            for shape, slots in self._seated:
                self._full.hold(Sitter(shape, slots), slots)
        return self._full

    def _pick(self, node: int, count: int) -> tuple[int, ...]:
        taken, size = self._taken[node], self._free.size[node]
        if not taken:
            return tuple(range(count))
        return tuple([gpu for gpu in range(size) if not taken >> gpu & 1][:count])

    def _seat_with_care(self, shape: Shape) -> Slots | None:
        floor = self.floor()
        parts = self.placement.place(shape, floor.free_for(shape, soon=False))
        slots = None if parts is None else slots_of(floor, shape, parts, self.placement)
        if slots is not None:
            self.keep(shape, slots)
        return slots


def slots_of(floor: Floor, shape: Shape, parts: Parts, placement: Placement) -> Slots | None:
    """The GPUs for so many on each node; None where they cannot be had after all."""
    if sum([count for _, count in parts]) != shape.gpus:
        raise PlanError(f"placement {type(placement).__name__} gave {parts} for {shape.gpus} GPUs")
    choose = _chooser(placement)
    slots = []
    for node, count in parts:
        room = floor.rooms[node]
        gpus = choose(room, count, shape) if choose is not None else room.pick(count, shape)
        if gpus is None:
            return None
        slots.append((room.node.id, gpus))
    return tuple(slots)


def pinned_slots(floor: Floor, shape: Shape) -> Slots | None:
    """The pinned GPUs, if the shape fits on every one of them now."""
    pinned = shape.family.where.pinned
    for node, gpus in pinned:
        room = floor.by_id.get(node)
        if room is None or not room.alive or not set(gpus) <= set(room.fitting(shape, soon=False)):
            return None
    return pinned


def node_for_cpus(floor: Floor, shape: Shape) -> Slots | None:
    """The first node with CPUs and RAM enough for a job without GPUs."""
    for room in floor.rooms:
        if room.alive and room.seats_cpus(shape):
            return ((room.node.id, ()),)
    return None


def fits_empty(empty: Floor, placement: Placement, shape: Shape) -> bool:
    """Whether a floor with nobody on it, as `Floor.empty_copy` makes it, could hold it. Nothing is taken."""
    if shape.family.where.pinned:
        return pinned_slots(empty, shape) is not None
    if not shape.gpus:
        return node_for_cpus(empty, shape) is not None
    parts = placement.place(shape, empty.free_for(shape, soon=False))
    return parts is not None and slots_of(empty, shape, parts, placement) is not None


def _chooser(placement: Placement) -> Callable[[Room, int, Shape], tuple[int, ...] | None] | None:
    """A placement's own way to pick a node's GPUs, held to those that fit."""
    pick = getattr(placement, "pick", None)
    if pick is None:
        return None

    def choose(room: Room, count: int, shape: Shape) -> tuple[int, ...] | None:
        fitting = room.fitting(shape, soon=False)
        gpus = tuple(pick(room, count, shape, fitting))
        if len(set(gpus)) != count or not set(gpus) <= set(fitting):
            name, able = type(placement).__name__, sorted(fitting)
            raise PlanError(f"placement {name} picked GPUs {gpus} of {room.node.id} for {count}; it may pick of {able}")
        return gpus

    return choose
