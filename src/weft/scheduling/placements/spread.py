"""Spread: worst fit. The node with the most free GPUs, so that jobs interfere less."""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.partition import fill
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class Spread(Placement):
    """Worst fit; a gang is split only if no node could hold it."""

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        node = next(free.roomiest(), None)
        if node is None:
            return None
        if free.count[node] >= shape.gpus:
            return ((node, shape.gpus),)
        if shape.gpus <= free.largest():
            return None
        return fill(shape.gpus, free.roomiest(), free)
