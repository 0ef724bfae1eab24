"""The number of GPUs that each node can give, indexed so that finding a node is a few integer operations.

A set of nodes is an int with one bit per node, in the order in which the nodes joined: `levels[k]` is the set of nodes
that can give exactly k GPUs. The lowest bit is the first node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from weft.model import Node
    from weft.scheduling.core.resources.node import Holder, NodeResources
    from weft.scheduling.core.resources.run_counts import RunCounts
    from weft.scheduling.core.resources.shapes import Shape


class Free:
    __slots__ = (
        "after_release", "count", "gone", "levels", "mask", "memories", "nodes", "racks", "recent", "run_counts",
        "size", "sized", "top",
    )  # fmt: skip

    def __init__(
        self,
        nodes: Sequence[NodeResources] = (),
        recent: Mapping[Shape, int] | None = None,
        *,
        after_release: bool = False,
    ) -> None:
        self.nodes = nodes
        """The nodes with their runs, for placements that see runs."""
        self.recent: Mapping[Shape, int] = recent if recent is not None else {}
        """The number of recent submissions of each shape."""
        self.count: list[int] = []
        """GPUs that each node can give."""
        self.size: list[int] = []
        """GPUs that each node has."""
        self.sized: list[int] = [0]
        """For each k from 0, the set of nodes that have exactly k GPUs."""
        self.levels: list[int] = [0]
        self.racks: dict[str, int] = {}
        """The set of nodes under each switch."""
        self.memories: dict[int, int] = {}
        """The set of nodes by the total memory of their GPUs."""
        self.run_counts: RunCounts | None = None
        """The number of runs on each node; None: it is not kept."""
        self.top = 0
        """The size of the largest living node."""
        self.mask: int = -1
        """The set of nodes that this index covers; -1: all."""
        self.after_release = after_release
        """True if stopping runs count as gone."""
        self.gone: Collection[Holder] = ()
        """Other runs that count as gone, in a tentative plan."""

    # ---- for placements

    def at_least(self, gpus: int) -> int:
        """Return the set of nodes that can give this many GPUs."""
        nodes = 0
        for level in self.levels[gpus:]:
            nodes |= level
        return nodes & self.mask

    def exhausted(self) -> bool:
        """Return whether no node can give a GPU."""
        return not any(self.levels[1:])  # each node is in one level

    def first(self, gpus: int) -> int | None:
        """Return the first node that can give this many GPUs."""
        nodes = self.at_least(gpus)
        return (nodes & -nodes).bit_length() - 1 if nodes else None

    def tightest(self, gpus: int) -> int | None:
        """Return the node with the fewest GPUs to give among those that can give this many; the first of equals."""
        for level in self.levels[gpus:]:
            nodes = level & self.mask
            if nodes:
                return (nodes & -nodes).bit_length() - 1
        return None

    def roomiest(self) -> Iterator[int]:
        """Yield the nodes that can give a GPU, those with the most first."""
        for gpus in range(len(self.levels) - 1, 0, -1):
            yield from members(self.levels[gpus] & self.mask)

    def idle_nodes(self) -> Iterator[int]:
        """Return the nodes that can give all their GPUs, in order."""
        nodes = 0
        for idle in self._idle():
            nodes |= idle
        return members(nodes)

    def largest_idle_nodes(self) -> Iterator[int]:
        """Return the nodes that can give all their GPUs, those with the most first."""
        return (node for idle in reversed(self._idle()) if idle for node in members(idle))

    def _idle(self) -> list[int]:
        """Return, for each k from 1, the set of nodes that have k GPUs and can give them all."""
        mask = self.mask
        return [level & sized & mask for level, sized in zip(self.levels[1:], self.sized[1:], strict=False)]

    def largest(self) -> int:
        """Return the size of the largest node that this index covers."""
        if self.mask == -1:
            return self.top
        return max((self.size[node] for node in members(self.mask)), default=0)

    def rack(self, switch: str) -> int:
        """Return the set of nodes under a switch."""
        return self.racks.get(switch, 0) & self.mask

    def total(self) -> int:
        total, mask = 0, self.mask
        for gpus, level in enumerate(self.levels):
            if level:
                total += gpus * (level & mask).bit_count()
        return total

    # ---- for placements that see runs

    def stays(self, holder: Holder) -> bool:
        return not (self.after_release and holder.releasing) and holder not in self.gone

    def tasks(self, node: int) -> int:
        """Return how many runs stay on a node, runs without GPUs included."""
        return sum(self.stays(holder) for holder in self.nodes[node].runs())

    def tiers(self) -> list[int]:
        """Return, for each k from 0, the set of nodes on which exactly k runs stay."""
        if self.run_counts is not None and not self.gone:
            return self.run_counts.tiers()
        tiers = [0]
        for node in range(len(self.count)):
            runs = self.tasks(node)
            tiers += [0] * (runs + 1 - len(tiers))
            tiers[runs] |= 1 << node
        return tiers

    def gpus(self, node: int, shape: Shape) -> list[int]:
        """Return the GPUs of a node that this shape could have, the fullest first."""
        if not self.mask >> node & 1:
            return []
        return self.nodes[node].fitting(shape, after_release=self.after_release, gone=self.gone)[: self.count[node]]

    # ---- for the core

    def add_node(self, node: Node) -> None:
        gpus = len(node.gpus)
        self.count.append(0)
        self.size.append(gpus)
        self.top = max(self.top, gpus)
        while len(self.levels) <= gpus:
            self.levels.append(0)
            self.sized.append(0)
        self.sized[gpus] |= 1 << (len(self.size) - 1)
        self.levels[0] |= 1 << (len(self.count) - 1)

    def equip(self, index: int, node: Node) -> None:
        """Record the switch and the GPU memory of a node."""
        _put(self.racks, node.switch, index)
        _put(self.memories, sum(gpu.memory_mb for gpu in node.gpus), index)

    def change(self, node: int, by: int) -> None:
        count, levels, bit = self.count, self.levels, 1 << node
        before = count[node]
        count[node] = after = before + by
        levels[before] ^= bit
        levels[after] |= bit

    def masked(self, mask: int) -> Free:
        """Return a view of this index that covers only a set of nodes."""
        view = Free.__new__(Free)
        view.count, view.levels = self.count, self.levels
        self._share(view)
        view.mask = mask
        return view

    def copy(self) -> Free:
        twin = Free.__new__(Free)
        twin.count, twin.levels = self.count.copy(), self.levels.copy()
        self._share(twin)
        return twin

    def resize(self, sizes: list[int]) -> None:
        """Set the size of each node to the GPUs that a shape can use."""
        self.size, self.sized = sizes, [0] * len(self.levels)
        for node, gpus in enumerate(sizes):
            self.sized[gpus] |= 1 << node
        self.top = max(sizes, default=0)

    def recounted(self, counts: list[int]) -> Free:
        """Return an index of the same nodes with other counts."""
        twin = Free.__new__(Free)
        self._share(twin)
        twin.mask, twin.count, twin.levels = -1, counts, [0] * len(self.levels)
        for node, gpus in enumerate(counts):
            twin.levels[gpus] |= 1 << node
        return twin

    def _share(self, other: Free) -> None:
        """Give another index all but the counts of this one."""
        other.size, other.sized, other.top, other.mask = self.size, self.sized, self.top, self.mask
        other.nodes, other.recent, other.racks, other.memories = self.nodes, self.recent, self.racks, self.memories
        other.after_release, other.gone, other.run_counts = self.after_release, self.gone, self.run_counts


Label = TypeVar("Label", str, int)


def _put(sets: dict[Label, int], label: Label, node: int) -> None:
    """Move the node into this set, out of all others."""
    for other, nodes in sets.items():
        if nodes >> node & 1:
            sets[other] = nodes & ~(1 << node)
    sets[label] = sets.get(label, 0) | 1 << node


def members(nodes: int) -> Iterator[int]:
    """Yield the nodes of a set, in order."""
    while nodes:
        bit = nodes & -nodes
        yield bit.bit_length() - 1
        nodes ^= bit
