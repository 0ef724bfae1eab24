"""Yarn: Muri's first fit. A gang no larger than a node is never split; a larger one fills nodes and part of another."""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.partition import fill_whole
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class Yarn(Placement):
    """First fit, gangs kept together."""

    fills_nodes = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        need = shape.gpus
        node = free.first(need)
        if node is not None:
            return ((node, need),)
        if need <= free.largest():
            return None
        parts, need, others = fill_whole(need, free.idle_nodes(), free)
        if not need:
            return parts
        rest = others.first(need)
        return None if rest is None else (*parts, (rest, need))
