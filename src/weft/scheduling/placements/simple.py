"""Simple: the node that wastes least, by 0.7 x excess free GPUs + 0.3 x excess GB of memory on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class Simple(Placement):
    """Least waste, on any node with enough free GPUs."""

    idle_only: bool = False
    """Use only nodes on which nothing runs."""

    sees_runs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        if shape.gpus > free.largest():
            return self._split(shape.gpus, free)
        _, node = min(self._first_of_each_kind(shape, free), default=(0.0, None))
        return None if node is None else ((node, shape.gpus),)

    def _first_of_each_kind(self, shape: Shape, free: Free) -> Iterator[tuple[float, int]]:
        """Yield the waste and the first node of each set of nodes with equal size, memory and free GPUs."""
        needed_mb = shape.memory_mb.max * shape.gpus
        for node_mb, same_memory in free.memories.items():
            for size, same_size in enumerate(free.sized):
                alike = same_memory & same_size
                for count in range(shape.gpus, size + 1) if alike else ():
                    first = next(self._usable(free, free.levels[count] & alike), None)
                    if first is not None:
                        excess_gb = (node_mb * count / size - needed_mb) / 1024
                        yield 0.7 * (count - shape.gpus) + 0.3 * excess_gb, first

    def _split(self, need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
        """Place a gang that no node could hold: on the nodes with the most free GPUs first."""
        parts = []
        for nodes in reversed(free.levels[1:]):
            for node in self._usable(free, nodes):
                parts.append((node, min(need, free.count[node])))
                need -= parts[-1][1]
                if not need:
                    return tuple(parts)
        return None

    def _usable(self, free: Free, nodes: int) -> Iterator[int]:
        if not self.idle_only:
            return members(nodes & free.mask)
        return _idle(free, nodes)


def _idle(free: Free, nodes: int) -> Iterator[int]:
    """Yield the nodes on which no run that stays and no reservation holds a GPU. Their GPUs may be blocked."""
    for node in members(nodes & free.tiers()[0] & free.mask if nodes else 0):
        short = free.size[node] - free.count[node]
        if not short or short == free.nodes[node].blocked():
            yield node
