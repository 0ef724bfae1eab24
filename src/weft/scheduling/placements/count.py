"""Count: any free GPUs, wherever they are (Tiresias in Muri's simulator)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.partition import fill
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class Count(Placement):
    """Counts GPUs only; gangs may be split in any way."""

    splits_gangs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        return fill(shape.gpus, members(free.at_least(1)), free)
