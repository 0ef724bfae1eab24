"""The GPUs of the cluster, their holders, and the GPUs that are still free.

GPUs that are being released count as free for planning (`after_release`), but nothing starts on them until they are
`idle`. The same code serves the resources of the state and the empty copies on which planners place tentatively.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from weft.model import Node, NodeId, Seconds, Slots
from weft.scheduling.core.resources.change_log import ChangeLog
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import Closure, Holder, NodeResources, Occupant
from weft.scheduling.core.resources.run_counts import RunCounts
from weft.scheduling.core.resources.shapes import Family, Shape

MAX_CACHED_SHAPES = 1_000
"""A cache with this many shapes is cleared."""
CHANGE_MARGIN_S = 0.001
"""A node that stays for exactly as long as a job needs still suits it."""
RECENT_SUBMISSIONS = 1000
"""The number of submissions that count as recent demand."""


class RecentDemand(Mapping[Shape, int]):
    """The number of recent submissions of each shape. They are counted only when a placement reads it."""

    def __init__(self) -> None:
        self._counted: deque[Shape] = deque()
        self._counts: Counter[Shape] = Counter()
        self._new: deque[Shape] = deque(maxlen=RECENT_SUBMISSIONS)
        self.add = self._new.append

    def __getitem__(self, shape: Shape) -> int:
        return self._up_to_date()[shape]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._up_to_date())

    def __len__(self) -> int:
        return len(self._up_to_date())

    def items(self) -> ItemsView[Shape, int]:
        return self._up_to_date().items()

    def values(self) -> ValuesView[int]:
        return self._up_to_date().values()

    def _up_to_date(self) -> Counter[Shape]:
        counts, counted = self._counts, self._counted
        for shape in self._new:
            counted.append(shape)
            counts[shape] += 1
            if len(counted) > RECENT_SUBMISSIONS:
                oldest = counted.popleft()
                counts[oldest] -= 1
                if not counts[oldest]:
                    del counts[oldest]
        self._new.clear()
        return counts


class ClusterResources:
    def __init__(self, oversubscription: float = 1.0) -> None:
        self.nodes: list[NodeResources] = []
        self.by_id: dict[NodeId, NodeResources] = {}
        self.recent = RecentDemand()
        """The recent demand by shape."""
        self.change_log = ChangeLog()
        self.idle, self.after_release = Free(self.nodes, self.recent), Free(self.nodes, self.recent, after_release=True)
        self._index_runs()
        self.releasing = 0
        """The number of stopping runs, which still hold GPUs."""
        self.oversubscription = oversubscription
        self._foreign = 0
        """The number of occupants that take a part of a GPU's memory."""
        self.node_sizes: Counter[int] = Counter()
        """The number of living nodes by their number of GPUs."""
        self.topology = 0
        """Rises when nodes come or go."""
        self._ends: dict[NodeResources, Seconds] = {}
        """The living nodes that leave at a known time."""
        self.needs: dict[float, None] = {}
        """The times that jobs need; empty until a node with a known end has joined."""
        self._changes_at: Seconds = float("inf")
        """When the next node does not stay for long enough for some job any more."""
        self._masks: dict[object, int | None] = {}
        self._empty: Free | None = None
        self._largest_mb: int | None = None
        self._sizes: dict[Family | Shape, list[int]] = {}
        self._counted: dict[tuple[Family | Shape, bool], tuple[Free, int]] = {}
        """The GPUs that each node can give to a shape or family, and the version of the change log when counted."""

    # ---- nodes come and go

    def join(self, node: Node) -> NodeResources:
        known = self.by_id.get(node.id)
        if known is not None and len(known.node.gpus) == len(node.gpus):
            host = self.nodes[known.index] = NodeResources(node, known.index, self.oversubscription)
        else:
            host = NodeResources(node, len(self.nodes), self.oversubscription)
            self.nodes.append(host)
            self.idle.add_node(node)
            self.after_release.add_node(node)
        self.by_id[node.id] = host
        for free in (self.idle, self.after_release):
            free.equip(host.index, node)
        self.change_log.record(host.index)
        self.idle.change(host.index, len(node.gpus))
        self.after_release.change(host.index, len(node.gpus))
        self.node_sizes[len(node.gpus)] += 1
        self._topology_changed()
        return host

    def lose(self, host: NodeResources) -> None:
        """Remove a node whose holders have been released."""
        host.alive = False
        self._ends.pop(host, None)
        self.change_log.record(host.index)
        self.idle.change(host.index, -self.idle.count[host.index])
        self.after_release.change(host.index, -self.after_release.count[host.index])
        self.node_sizes -= Counter([len(host.node.gpus)])
        self._topology_changed()

    def set_end(self, host: NodeResources, until: Seconds, now: Seconds) -> None:
        self._ends[host], self._changes_at = until, now
        self.advance(now)

    def advance(self, now: Seconds) -> None:
        """Let time pass for the nodes that leave at a known time; recount them if a job may not fit any more."""
        for host, until in self._ends.items():
            host.lasts_s = until - now
        if now < self._changes_at:
            return
        for host in self._ends:
            self.change_log.record(host.index)
        self._topology_changed()
        changes = (until - need_s for until in self._ends.values() for need_s in self.needs)
        self._changes_at = min((at for at in changes if at >= now), default=float("inf")) + CHANGE_MARGIN_S

    def emptied(self) -> Free:
        """Return the GPUs that the living nodes could give without any run on them."""
        if self._empty is None:
            self._empty = self.idle.recounted([len(r.node.gpus) if r.alive else 0 for r in self.nodes])
        return self._empty.copy()

    def empty_copy(self) -> ClusterResources:
        """Return a copy of the living nodes without any run on them."""
        twin = ClusterResources(self.oversubscription)
        twin._masks = self._masks
        for host in self.nodes:
            fresh = NodeResources(host.node, host.index, self.oversubscription)
            fresh.alive, fresh.lasts_s = host.alive, host.lasts_s
            twin.nodes.append(fresh)
        twin.by_id = {host.node.id: host for host in twin.nodes}
        twin.idle, twin.after_release = self.emptied(), self.emptied()
        twin.after_release.after_release = True
        twin.recent, twin.node_sizes = self.recent, self.node_sizes.copy()
        twin.idle.nodes = twin.after_release.nodes = twin.nodes
        twin._index_runs()
        return twin

    # ---- holders come and go

    def hold(self, holder: Holder, slots: Slots, *, restored: bool = False) -> None:
        """Give these GPUs to the holder.

        `restored`: it has them already, perhaps next to a run that leaves its weave or takes no more turns in it.
        """
        family = holder.allocation.family
        for node_id, gpus in slots:
            host = self.by_id[node_id]
            index, of_gpu = host.index, host.holders
            self.change_log.record(index)
            idle = after_release = 0
            for gpu in gpus:
                holders = of_gpu[gpu]
                if holders:
                    if holders[0].releasing:
                        after_release += all(h.releasing for h in holders)
                    if not restored:
                        host.check(gpu, holder)
                else:
                    idle += 1
                    host.idle ^= 1 << gpu
                holders.append(holder)
            if not gpus:
                host.guests.append(holder)
            if idle:
                self.idle.change(index, -idle)
            if idle + after_release:
                self.after_release.change(index, -idle - after_release)
            if family.cpus or family.ram_mb:
                host.cpus_used += family.cpus * (len(gpus) or 1)
                host.ram_used += family.ram_mb * (len(gpus) or 1)

    def begin_release(self, holder: Holder, slots: Slots) -> None:
        """Count the GPUs of a stopping holder as free for planning. Its `releasing` is already set."""
        family = holder.allocation.family
        self.releasing += 1
        for node_id, gpus in slots:
            host = self.by_id[node_id]
            self.change_log.record(host.index)
            after_release = 0
            for gpu in gpus:
                for other in host.holders[gpu]:
                    if not other.releasing:
                        break
                else:
                    after_release += 1
            if after_release:
                self.after_release.change(host.index, after_release)
            if family.cpus or family.ram_mb:
                host.cpus_releasing += family.cpus * (len(gpus) or 1)
                host.ram_releasing += family.ram_mb * (len(gpus) or 1)

    def release(self, holder: Holder, slots: Slots, *, last: bool = True) -> None:
        """Free these GPUs of the holder. `last` is False if it keeps others."""
        family = holder.allocation.family
        if holder.releasing and last:
            self.releasing -= 1
        for node_id, gpus in slots:
            host = self.by_id[node_id]
            index, of_gpu = host.index, host.holders
            self.change_log.record(index)
            idle = after_release = 0
            for gpu in gpus:
                holders = of_gpu[gpu]
                holders.remove(holder)
                if not holders:
                    idle += 1
                    host.idle ^= 1 << gpu
                elif not holder.releasing and all(h.releasing for h in holders):
                    after_release += 1
            if not gpus:
                host.guests.remove(holder)
            if idle:
                self.idle.change(index, idle)
                if not holder.releasing:
                    after_release += idle
            if after_release:
                self.after_release.change(index, after_release)
            if family.cpus or family.ram_mb:
                cpus, ram_mb = family.cpus * (len(gpus) or 1), family.ram_mb * (len(gpus) or 1)
                host.cpus_used -= cpus
                host.ram_used -= ram_mb
                if holder.releasing:
                    host.cpus_releasing -= cpus
                    host.ram_releasing -= ram_mb

    def occupy(self, occupant: Occupant) -> None:
        """Keep new runs off this GPU, or out of this part of its memory."""
        host = self.by_id[occupant.node]
        self.change_log.record(host.index)
        if occupant.memory_mb is not None:
            host.foreign_mb[occupant.gpu] = host.foreign_mb.get(occupant.gpu, 0) + occupant.memory_mb
            self._foreign += 1
            return
        holders = host.holders[occupant.gpu]
        if not holders:
            self.idle.change(host.index, -1)
            host.idle ^= 1 << occupant.gpu
        if all(holder.releasing for holder in holders):
            self.after_release.change(host.index, -1)
        holders.append(occupant)
        host.occupants.append(occupant)

    def free(self, occupant: Occupant) -> None:
        """Undo `occupy`."""
        host = self.by_id[occupant.node]
        self.change_log.record(host.index)
        if occupant.memory_mb is not None:
            host.foreign_mb[occupant.gpu] -= occupant.memory_mb
            self._foreign -= 1
            return
        holders = host.holders[occupant.gpu]
        holders.remove(occupant)
        host.occupants.remove(occupant)
        if not holders:
            self.idle.change(host.index, 1)
            host.idle ^= 1 << occupant.gpu
        if all(holder.releasing for holder in holders):
            self.after_release.change(host.index, 1)

    def close(self, host: NodeResources, closure: Closure, why: str) -> None:
        """Keep new runs off this node."""
        self.change_log.record(host.index)
        host.closures += 1
        for gpu in range(len(host.node.gpus)):
            closure.occupants.append(Occupant(host.node.id, gpu, why, None, closure.detail))
            self.occupy(closure.occupants[-1])

    def open(self, host: NodeResources, closure: Closure) -> None:
        """Undo `close`."""
        self.change_log.record(host.index)
        host.closures -= 1
        for occupant in closure.occupants:
            self.free(occupant)
        closure.occupants.clear()

    def largest_memory_mb(self) -> int:
        """Return the memory of the largest GPU of the living nodes."""
        if self._largest_mb is None:
            living = (gpu for host in self.nodes if host.alive for gpu in host.node.gpus)
            self._largest_mb = max((gpu.memory_mb for gpu in living), default=0)
        return self._largest_mb

    def touch(self, slots: Slots) -> None:
        """Log a change of these nodes: the holder of these GPUs moved in the order of runs."""
        for node_id, _ in slots:
            self.change_log.record(self.by_id[node_id].index)

    # ---- what a shape could have

    def free_for(self, shape: Shape, *, after_release: bool) -> Free:
        """Return the GPUs that each node can give to this shape, now or once stopping runs have exited."""
        base = self.after_release if after_release else self.idle
        if shape.plain:
            return base
        if shape.family.counted and not self._foreign:
            mask = self._mask(shape)
            if mask is not None:
                return base.masked(mask)
        return self._counted_for(shape, base, after_release=after_release)

    def _counted_for(self, shape: Shape, base: Free, *, after_release: bool) -> Free:
        """Count node by node, but only the nodes that changed since the last count."""
        cache_key = shape if shape.memory_mb.differs else shape.family
        known = self._counted.get((cache_key, after_release))
        changed = self.change_log.since(known[1]) if known is not None else None
        if known is None or changed is None:
            free = base.recounted([host.count_for(shape, after_release=after_release) for host in self.nodes])
            free.resize(self._sizes_for(cache_key, shape))
            if len(self._counted) >= MAX_CACHED_SHAPES:
                self._counted.clear()
        else:
            free = known[0]
            for node in members(changed):
                free.change(node, self.nodes[node].count_for(shape, after_release=after_release) - free.count[node])
        self._counted[cache_key, after_release] = free, self.change_log.version
        return free

    def _sizes_for(self, cache_key: Family | Shape, shape: Shape) -> list[int]:
        """Return how many GPUs each node could give this shape if it were empty."""
        sizes = self._sizes.get(cache_key)
        if sizes is None:
            empty = self.empty_copy()
            sizes = [host.count_for(shape, after_release=False) for host in empty.nodes]
            if len(self._sizes) >= MAX_CACHED_SHAPES:
                self._sizes.clear()
            self._sizes[cache_key] = sizes
        return sizes

    # ---- inside

    def _index_runs(self) -> None:
        for free in (self.idle, self.after_release):
            free.run_counts = RunCounts(self.nodes, self.change_log, after_release=free.after_release)

    def _topology_changed(self) -> None:
        self.topology += 1
        self._masks.clear()
        self._sizes.clear()
        self._counted.clear()
        self._empty = self._largest_mb = None
        self.idle.top = self.after_release.top = max(self.node_sizes, default=0)

    def _mask(self, shape: Shape) -> int | None:
        """Return the nodes whose GPUs suit this shape, as bits; None if some node has suitable and unsuitable GPUs."""
        key = shape.family
        if key not in self._masks:
            self._masks[key] = self._suitable_nodes(shape)
        return self._masks[key]

    def _suitable_nodes(self, shape: Shape) -> int | None:
        where, memory, mask = shape.family.where, shape.memory_mb.of(0), 0
        for host in self.nodes:
            if not host.alive or (where.labels and not set(where.labels) <= set(host.node.labels)):
                continue
            if host.lasts_s < shape.family.need_s:
                continue
            suited = sum(g.memory_mb >= memory and where.gpu_model in ("", g.model) for g in host.node.gpus)
            if suited == len(host.node.gpus):
                mask |= 1 << host.index
            elif suited:
                return None
        return mask


class UncountedResources(ClusterResources):
    """Nodes without their holders, for readers of facts that need only the nodes."""

    def hold(self, holder: Holder, slots: Slots, *, restored: bool = False) -> None: ...
    def begin_release(self, holder: Holder, slots: Slots) -> None: ...
    def release(self, holder: Holder, slots: Slots, *, last: bool = True) -> None: ...
    def touch(self, slots: Slots) -> None: ...
