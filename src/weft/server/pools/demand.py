"""The nodes that waiting jobs need of pools. Pure.

The waiting jobs are placed tentatively, in their order, on what is free and on the nodes that are on their way. For a
job that does not fit, nodes of the first pool that could hold it are added until it does. So a pool is never asked for
a node that no waiting job could use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from weft.model import Job, NodeId
from weft.model.pool import Pool
from weft.scheduling.core.planning.feasibility import Feasible
from weft.scheduling.core.planning.tentative import TentativeRun, node_for_cpus, slots_of
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.node_ends import time_needed_s
from weft.scheduling.core.state.pools import PoolState
from weft.scheduling.core.state.state import State

MAX_JOBS: Final = 10_000
"""Waiting jobs beyond these are not looked at: the ones before them need more nodes than a pool has."""


@dataclass(slots=True)
class Demand:
    """The need of waiting jobs of one pool."""

    nodes: int = 0
    """Nodes beyond what is free or on its way."""
    gang: int = 0
    """The most of these that one job needs at once."""
    used: set[NodeId] = field(default_factory=set)
    """Present or coming nodes that a waiting job would use."""
    jobs: int = 0
    """Jobs that wait for these nodes."""


def outlasts(pool: Pool, job: Job) -> bool:
    """Return whether a job may run for longer than an allocation of the pool lasts."""
    need_s = time_needed_s(job)
    return need_s is not None and need_s > pool.usable_s


class PoolFit:
    """The judgement whether a pool could ever hold a job. Equal needs are judged once."""

    def __init__(self, pool: Pool, placement: Placement) -> None:
        self.pool, self.placement = pool, placement
        nodes = [pool.node(f"{pool.name}-{number}") for number in range(pool.max_nodes)]
        self._feasible = Feasible(nodes, [placement])

    def could_hold(self, job: Job) -> bool:
        """Return whether the job fits on empty nodes of the pool alone."""
        return not job.where.pinned and not self._feasible.why_not(job)


class Fits:
    """The `PoolFit` of each pool, made again when the pool or the placement has changed."""

    def __init__(self) -> None:
        self._known: dict[str, PoolFit] = {}

    def of(self, pool: Pool, placement: Placement) -> PoolFit:
        known = self._known.get(pool.name)
        if known is None or known.pool != pool or known.placement is not placement:
            known = self._known[pool.name] = PoolFit(pool, placement)
        return known


def measure_demand(
    state: State, placement: Placement, waiting: Iterable[JobState], coming: Mapping[str, Sequence[NodeId]], fits: Fits
) -> dict[str, Demand]:
    """Return the demand of waiting replicas and jobs for each pool. `coming` are the slots of each pool whose nodes
    are on their way."""
    found = {name: Demand() for name in state.pools.by_name}
    if state.paused:
        return found
    pools = [pool for pool in state.pools.by_name.values() if not pool.paused and not pool.removing]
    floor = _Floor(state, placement)
    for name, slots in coming.items():
        for slot in slots:
            floor.add(state.pools.by_name[name].pool, slot)
    full: set[tuple[Shape, tuple[bool, ...]]] = set()
    """Shapes for which neither the floor nor a pool has room, and which pools jobs of them outlast."""
    for job in islice(waiting, MAX_JOBS):
        late = tuple(outlasts(pool.pool, job.job) for pool in pools)
        if (job.shape, late) in full:
            continue
        nodes = floor.place(job.shape)
        if nodes is None:
            nodes = _grow(floor, job, pools, found, fits)
        if nodes is None:
            full.add((job.shape, late))
        else:
            _count_used(state, found, nodes)
    return found


def _grow(
    floor: _Floor, job: JobState, pools: Sequence[PoolState], found: dict[str, Demand], fits: Fits
) -> Collection[NodeId] | None:
    """Add nodes of the first pool that could hold the job, until it fits. Return the nodes that it uses."""
    for state in pools:
        pool, demand = state.pool, found[state.pool.name]
        if outlasts(pool, job.job) or not fits.of(pool, floor.placement).could_hold(job.job):
            continue
        room = pool.max_nodes - len(state.allocations) - demand.nodes
        added: list[NodeId] = []
        while len(added) < room:
            added.append(f"{pool.name}+{demand.nodes + len(added)}")
            floor.add(pool, added[-1])
            nodes = floor.place(job.shape)
            if nodes is not None:
                demand.nodes += len(added)
                demand.gang = max(demand.gang, len(added))
                demand.jobs += 1
                return nodes
        floor.remove(added)
    return None


def _count_used(state: State, found: dict[str, Demand], nodes: Iterable[NodeId]) -> None:
    for node in nodes:
        pool = state.pools.of_node(node)
        if pool is not None:
            found[pool.pool.name].used.add(node)


class _Floor:
    """A copy of the open nodes with their runs, and of nodes to come, on which jobs are placed tentatively."""

    def __init__(self, state: State, placement: Placement) -> None:
        self.placement = placement
        self._resources = ClusterResources(state.resources.oversubscription)
        for host in state.resources.nodes:
            if host.alive and not host.closures:
                self._resources.join(host.node).lasts_s = host.lasts_s
        here = self._resources.by_id
        for job in state.active.values():
            slots = tuple(part for part in job.slots if part[0] in here)
            if slots and not job.releasing:
                self._resources.hold(job, slots, restored=True)
        for occupant in state.occupants.values():
            if occupant.node in here:
                self._resources.occupy(occupant)

    def add(self, pool: Pool, slot: NodeId) -> None:
        if slot not in self._resources.by_id:
            self._resources.join(pool.node(slot))

    def remove(self, slots: Iterable[NodeId]) -> None:
        for slot in slots:
            self._resources.lose(self._resources.by_id[slot])

    def place(self, shape: Shape) -> Collection[NodeId] | None:
        """Take the GPUs that the placement gives; return their nodes, or None."""
        resources = self._resources
        if shape.family.where.pinned:
            return None
        if not shape.gpus:
            slots = node_for_cpus(resources, shape)
        else:
            parts = self.placement.place(shape, resources.free_for(shape, after_release=False))
            slots = None if parts is None else slots_of(resources, shape, parts, self.placement)
        if slots is None:
            return None
        resources.hold(TentativeRun(shape, slots), slots, restored=True)
        return [node for node, _ in slots]
