"""A cache of the nodes that could hold a shape if the runs that may be preempted for it were stopped.

Most attempts to preempt fail, and fail again at the next event. So the result of a failed attempt is kept per shape,
and only nodes that changed since are checked again. The key of a run only gets better while it runs (unless keys rise),
so an old result is at worst too hopeful, and the next attempt corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.scheduling.core.planning.allocator import Allocator
from weft.scheduling.core.planning.tentative import fits_empty
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.queue.order import KEY_ROUNDING, Order
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import NodeResources
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


@dataclass(slots=True)
class Finding:
    key: float
    tie: int
    """The finding says nothing about jobs better than this."""
    able: int
    """Nodes that could hold the shape, or be emptied for a whole part of it."""
    stale: int
    """Nodes to check again."""
    seen: int
    """The version of the change log at the last check."""


class PreemptionCache:
    """Failed preemptions by shape. `fills_nodes`: see `Placement.fills_nodes`."""

    def __init__(self, state: State, order: Order, *, fills_nodes: bool) -> None:
        self._state, self._order, self._fills_nodes = state, order, fills_nodes
        self._findings: dict[Shape, Finding] = {}
        self.settled_at = -1
        """The version of the change log after the last pass: while it stays, jobs that did not fit still do not."""
        self._blocked: tuple[JobState, int, int] | None = None
        """The job that blocked all others at the last pass; the version of the change log and the topology then."""

        self._empty = ClusterResources()
        """The living nodes without any run on them."""
        self._impossible: dict[Shape, bool] = {}
        self._impossible_at = -1

    def block(self, job: JobState) -> None:
        """Record that this job does not fit and blocks all jobs behind it."""
        resources = self._state.resources
        self._blocked = job, resources.change_log.version, resources.topology

    def still_blocked(self) -> bool:
        """Return whether the same job still blocks all others: nothing changed, and no better job came."""
        if self._blocked is None or self._order.fresh:
            return False
        job, version, _ = self._blocked
        return job.status == "waiting" and version == self._state.resources.change_log.version

    def blocks_again(self, allocator: Allocator) -> bool:
        """Return whether the same job blocks all others after a change: no better job came, and it fits nowhere."""
        if self._blocked is None or self._order.fresh:
            return False
        job, _, topology = self._blocked
        resources, shape = self._state.resources, job.shape
        if job.status != "waiting" or resources.releasing or topology != resources.topology or not shape.plain:
            return False
        allocator.begin()
        if allocator.has_room(shape) or self.impossible(shape, allocator.placement):
            return False
        self.block(job)
        return True

    def impossible(self, shape: Shape, placement: Placement) -> bool:
        """Return whether the living nodes could not hold the shape even if empty. It waits for nodes to join."""
        topology = self._state.resources.topology
        if self._impossible_at != topology:
            self._impossible.clear()
            self._impossible_at, self._empty = topology, self._state.resources.empty_copy()
        found = self._impossible.get(shape)
        if found is None:
            found = self._impossible[shape] = not fits_empty(self._empty, placement, shape)
        return found

    def hopeless(self, shape: Shape, key: float, tie: int) -> bool:
        """Return whether preemption is known to be of no use to a waiting job of this shape and key."""
        known = self._findings.get(shape)
        if known is None or key < known.key or (key == known.key and tie < known.tie) or self._order.rising:
            return False
        resources = self._state.resources
        if not shape.whole or not (self._fills_nodes or shape.gpus <= resources.after_release.top):
            return False
        log = resources.change_log
        if known.seen != log.version or known.stale:
            changed = log.since(known.seen)
            if changed is None:
                return False
            able, looked_at = known.able, known.stale | changed
            while looked_at:
                bit = looked_at & -looked_at
                looked_at ^= bit
                able = able | bit if self._can(resources.nodes[bit.bit_length() - 1], shape, key, tie) else able & ~bit
            known.able, known.stale, known.seen = able, 0, log.version
        known.key, known.tie = key, tie
        if not known.able:
            return True
        return not self._suffices(shape, known.able)

    def _suffices(self, shape: Shape, able: int) -> bool:
        """Return whether one node could hold the shape; if none is large enough, whole nodes all but a rest of it."""
        sizes, top = self._state.resources.after_release.size, self._state.resources.after_release.top
        if shape.gpus <= top or not top:
            return able != 0
        whole = sum(sizes[node] for node in members(able))
        alike = len(self._state.resources.node_sizes) == 1
        return whole + (shape.gpus % top if alike else top) >= shape.gpus

    def learn(self, shape: Shape, key: float, tie: int, free: Free, promised: Iterable[int]) -> None:
        """Record a failed attempt; `free` has the GPUs that each node could give with all preemptible runs gone."""
        if shape.gpus <= self._state.resources.after_release.top:
            able = free.at_least(shape.gpus)
        else:
            able = sum(1 << node for node in free.idle_nodes())
        stale = sum(1 << node for node in promised)
        self._findings[shape] = Finding(key, tie, able, stale, self._state.resources.change_log.version)

    def _can(self, host: NodeResources, shape: Shape, key: float, tie: int) -> bool:
        if not host.alive:
            return False
        now = self._state.now
        whole = shape.gpus > self._state.resources.after_release.top
        spare = 0 if whole else len(host.holders) - shape.gpus
        if spare < 0:
            return False
        stays = goes = None  # the last run that stays, and the last that goes: most have several GPUs
        for holders in host.holders:
            for holder in holders:
                if holder is not stays:
                    if holder is goes or holder.releasing:
                        continue
                    if holder.place is not None:
                        _, line, slope = holder.place
                        own = line[0] + slope * now
                        if own > key + KEY_ROUNDING or (own >= key - KEY_ROUNDING and line[1] >= tie):
                            goes = holder
                            continue
                    stays = holder
                spare -= 1
                if spare < 0:
                    return False
                break
        return True
