"""Balanced: the node with the least to do, by active tasks / GPUs - free GPUs / GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.core.free import Free, members
from weft.core.shapes import Shape


@dataclass(frozen=True)
class Balanced:
    """Load spread evenly, counting tasks and free GPUs."""

    looks: ClassVar[bool] = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        if shape.gpus <= free.largest():
            able = members(free.at_least(shape.gpus))
            node = min(able, key=lambda node: (_load(shape, free, node), node), default=None)
            return None if node is None else ((node, shape.gpus),)
        parts, need = [], shape.gpus
        for node in sorted(members(free.at_least(1)), key=lambda node: (_load(shape, free, node), node)):
            parts.append((node, min(need, free.count[node])))
            need -= parts[-1][1]
            if not need:
                return tuple(parts)
        return None


def _load(shape: Shape, free: Free, node: int) -> float:
    """By the GPUs that nobody is on, whether or not they suit this shape."""
    holders = free.rooms[node].holders
    idle = free.count[node] if shape.plain else sum(not any(map(free.stays, gpu)) for gpu in holders)
    return (free.tasks(node) - idle) / len(holders)
