"""Simple: the idle node that wastes least, 0.7 x GPUs too many + 0.3 x GB of GPU memory too much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.ports import Placement
from weft.core.resources.free import Free, members
from weft.core.resources.shapes import Shape, memory_needed


@dataclass(frozen=True)
class Simple(Placement):
    """Least waste, on idle nodes only."""

    sees_runs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        if shape.gpus > free.largest():
            return _several(shape.gpus, free)
        _, node = min(_least_of_each_kind(shape, free), default=(0.0, None))
        return None if node is None else ((node, shape.gpus),)


def _least_of_each_kind(shape: Shape, free: Free) -> Iterator[tuple[float, int]]:
    """Nodes with as much memory that can give as many GPUs waste the same: the first of them, and how much."""
    for memory_mb, alike in free.memories.items():
        excess_gb = (memory_mb - memory_needed(shape) * shape.gpus) / 1024
        for count, nodes in enumerate(free.levels[shape.gpus :], shape.gpus):
            first = next(_idle(free, nodes & alike), None)
            if first is not None:
                yield 0.7 * (count - shape.gpus) + 0.3 * excess_gb, first


def _idle(free: Free, nodes: int) -> Iterator[int]:
    """Where nobody stays and nothing is promised; GPUs that are blocked do not count."""
    for node in members(nodes & free.tiers()[0] & free.mask if nodes else 0):
        short = free.size[node] - free.count[node]
        if not short or short == free.nodes[node].blocked():
            yield node


def _several(need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    """A gang that no node could hold: the largest idle nodes first."""
    parts = []
    for nodes in reversed(free.levels[1:]):
        for node in _idle(free, nodes):
            parts.append((node, min(need, free.count[node])))
            need -= parts[-1][1]
            if not need:
                return tuple(parts)
    return None
