"""Simple: the idle node that wastes least, 0.7 x GPUs too many + 0.3 x GB of GPU memory too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.core.free import Free
from weft.core.shapes import Shape, memory_needed


@dataclass(frozen=True)
class Simple:
    """Least waste, on idle nodes only."""

    looks: ClassVar[bool] = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        idle = [node for node in free.roomiest() if _is_idle(free, node)]
        if shape.gpus > free.largest():
            return _several(shape.gpus, free, idle)
        able = [node for node in idle if free.count[node] >= shape.gpus]
        node = min(able, key=lambda node: (_waste(shape, free, node), node), default=None)
        return None if node is None else ((node, shape.gpus),)


def _is_idle(free: Free, node: int) -> bool:
    """Nobody stays there and nothing of it is promised; GPUs that are blocked do not count."""
    short = free.size[node] - free.count[node]
    return (not short or short == free.rooms[node].blocked()) and not free.tasks(node)


def _waste(shape: Shape, free: Free, node: int) -> float:
    """What the node has beyond what is asked for."""
    memory_mb = sum(gpu.memory_mb for gpu in free.rooms[node].node.gpus)
    excess_gb = (memory_mb - memory_needed(shape) * shape.gpus) / 1024
    return 0.7 * (free.count[node] - shape.gpus) + 0.3 * excess_gb


def _several(need: int, free: Free, idle: list[int]) -> tuple[tuple[int, int], ...] | None:
    """A gang that no node could hold: the largest idle nodes first."""
    parts = []
    for node in idle:
        parts.append((node, min(need, free.count[node])))
        need -= parts[-1][1]
        if not need:
            return tuple(parts)
    return None
