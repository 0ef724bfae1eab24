"""Packed: best fit. The node with the fewest sufficient free GPUs; larger gangs on as few nodes and switches as fit."""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.partition import fill_whole
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class Packed(Placement):
    """Best fit, gangs kept together."""

    fills_nodes = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        node = free.tightest(shape.gpus)
        if node is not None:
            return ((node, shape.gpus),)
        if shape.gpus <= free.largest():
            return None
        if free.total() < shape.gpus:
            return None
        racks = [free.masked(free.rack(switch)) for switch in free.racks] if len(free.racks) > 1 else []
        candidates = (_whole_nodes(shape.gpus, rack) for rack in (*racks, free))
        return next((parts for parts in candidates if parts is not None), None)


def _whole_nodes(need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    """Fill idle nodes, then place the rest on the tightest node."""
    parts, need, others = fill_whole(need, free.largest_idle_nodes(), free)
    if not need:
        return parts
    rest = others.tightest(need) if parts else None
    return None if rest is None else (*parts, (rest, need))
