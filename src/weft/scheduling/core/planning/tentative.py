"""The step from counts to GPUs, on the real cluster or tentatively on an emptied copy of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.errors import PlanError
from weft.model import JobId, Slots
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.node import NodeResources, lowest
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.state import State
from weft.text import natural

Parts = tuple[tuple[int, int], ...]
"""Pairs of a node (its index) and a number of GPUs."""


@dataclass(slots=True, eq=False)
class TentativeRun:
    """A holder of GPUs of a tentative cluster."""

    allocation: Shape
    placed: Slots
    releasing: bool = False
    weave: tuple[JobId, ...] = ()
    place: None = None


class TentativeCluster:
    """A copy of the cluster without its training jobs, to place on tentatively. Whole GPUs need only a count and a bit
    each. Replicas of services keep their GPUs."""

    def __init__(self, state: State, placement: Placement) -> None:
        self._real, self.placement = state.resources, placement
        self._free = state.resources.emptied()
        self._taken = [0] * len(state.resources.nodes)
        self._taken_slots: list[tuple[Shape, Slots]] = []
        self._counted: list[tuple[Shape, Parts]] = []
        """Parts that are taken, but whose GPUs are not chosen yet."""
        self._full: ClusterResources | None = None
        self._sees_runs = placement.sees_runs
        for service in state.services.by_name.values():
            for replica in service.replicas.values():
                if replica.slots and not replica.releasing:
                    self.keep(replica.allocation, replica.slots)

    @property
    def idle_gpus(self) -> int:
        """GPUs that nothing has taken."""
        return self._full.idle.total() if self._full is not None else self._free.total()

    def fits(self, shape: Shape) -> bool:
        """Take the GPUs that the placement gives this shape; return False where it gives none."""
        if not shape.plain or self._full is not None or self._sees_runs:
            return self.allocate(shape) is not None
        parts = self.placement.place(shape, self._free)
        if parts is None:
            return False
        for node, count in parts:
            self._free.change(node, -count)
        self._counted.append((shape, parts))
        return True

    def allocate(self, shape: Shape) -> Slots | None:
        """Take the GPUs that the placement gives this shape; None where it gives none."""
        if not shape.gpus:
            return node_for_cpus(self.resources(), shape)
        if not shape.plain or self._full is not None or self._sees_runs:
            return self._allocate_with_holders(shape)
        parts = self.placement.place(shape, self._free)
        if parts is None:
            return None
        for node, count in parts:
            self._free.change(node, -count)
        self._counted.append((shape, parts))
        self._choose_counted()
        return self._taken_slots[-1][1]

    def _choose_counted(self) -> None:
        """Choose the lowest GPUs for all parts that were only counted."""
        if not self._counted:
            return
        for shape, parts in self._counted:
            slots = tuple([(self._real.nodes[node].node.id, self._pick(node, count)) for node, count in parts])
            self._taken_slots.append((shape, slots))
        self._counted.clear()

    def keep(self, shape: Shape, slots: Slots) -> None:
        """Take these GPUs."""
        self._choose_counted()
        self._taken_slots.append((shape, slots))
        if self._full is not None:
            self._full.hold(TentativeRun(shape, slots), slots)
            return
        for node_id, gpus in slots:
            node, wanted = self._real.by_id[node_id].index, bit_set(gpus)
            taken = self._taken[node]
            self._taken[node] = taken | wanted
            self._free.change(node, -(wanted & ~taken).bit_count())

    def vacant(self, slots: Slots) -> bool:
        """Return whether none of these whole GPUs is taken."""
        self._choose_counted()
        nodes, taken = self._real.by_id, self._taken
        return not any(taken[nodes[node].index] & bit_set(gpus) for node, gpus in slots)

    def resources(self) -> ClusterResources:
        """Return all nodes with their holders."""
        if self._full is None:
            self._choose_counted()
            self._full = self._real.empty_copy()
            for shape, slots in self._taken_slots:
                self._full.hold(TentativeRun(shape, slots), slots)
        return self._full

    def _pick(self, node: int, count: int) -> tuple[int, ...]:
        """Choose and take the lowest GPUs of a node that are not taken."""
        idle = (1 << self._free.size[node]) - 1 & ~self._taken[node]
        gpus = lowest(idle, count) or ()
        self._taken[node] |= bit_set(gpus)
        return gpus

    def _allocate_with_holders(self, shape: Shape) -> Slots | None:
        resources = self.resources()
        parts = self.placement.place(shape, resources.free_for(shape, after_release=False))
        slots = None if parts is None else slots_of(resources, shape, parts, self.placement)
        if slots is not None:
            self.keep(shape, slots)
        return slots


def bit_set(gpus: Iterable[int]) -> int:
    """Return a set of GPUs as bits."""
    found = 0
    for gpu in gpus:
        found |= 1 << gpu
    return found


def slots_of(resources: ClusterResources, shape: Shape, parts: Parts, placement: Placement) -> Slots | None:
    """Return the GPUs for these counts on each node; None if they are not available after all. Ranks go through the
    nodes of a switch by name."""
    picks = type(placement).pick is not Placement.pick
    slots, total = [], 0
    for node, count in sorted(parts, key=lambda part: _rank_key(resources.nodes[part[0]])) if len(parts) > 1 else parts:
        host = resources.nodes[node]
        gpus = _picked(placement, host, count, shape) if picks else host.pick(count, shape)
        if gpus is None:
            return None
        slots.append((host.node.id, gpus))
        total += count
    if total != shape.gpus:
        raise PlanError(f"placement {type(placement).__name__} gave {parts} for {shape.gpus} GPUs")
    return tuple(slots)


def _rank_key(host: NodeResources) -> tuple[object, ...]:
    return host.node.switch, natural(host.node.id)


def pinned_slots(resources: ClusterResources, shape: Shape) -> Slots | None:
    """Return the pinned GPUs if the shape fits on every one of them now."""
    pinned = shape.family.where.pinned
    for node, gpus in pinned:
        host = resources.by_id.get(node)
        if host is None or not host.alive or not set(gpus) <= set(host.fitting(shape, after_release=False)):
            return None
    return pinned


def node_for_cpus(resources: ClusterResources, shape: Shape) -> Slots | None:
    """Return the first node with enough CPUs and RAM for a job without GPUs."""
    for host in resources.nodes:
        if host.alive and host.fits_cpus(shape):
            return ((host.node.id, ()),)
    return None


def fits_empty(empty: ClusterResources, placement: Placement, shape: Shape) -> bool:
    """Return whether an empty cluster, made by `ClusterResources.empty_copy`, could hold the shape. Take nothing."""
    if shape.family.where.pinned:
        return pinned_slots(empty, shape) is not None
    if not shape.gpus:
        return node_for_cpus(empty, shape) is not None
    parts = placement.place(shape, empty.free_for(shape, after_release=False))
    return parts is not None and slots_of(empty, shape, parts, placement) is not None


def _picked(placement: Placement, host: NodeResources, count: int, shape: Shape) -> tuple[int, ...]:
    """Return the GPUs that the placement picks from a node; it may pick only GPUs that fit."""
    fitting = host.fitting(shape, after_release=False)
    gpus = tuple(placement.pick(host, count, shape, fitting))
    if len(set(gpus)) != count or not set(gpus) <= set(fitting):
        name, able = type(placement).__name__, sorted(fitting)
        raise PlanError(f"placement {name} picked GPUs {gpus} of {host.node.id} for {count}; it may pick of {able}")
    return gpus
