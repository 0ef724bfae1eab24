"""Apart: place gangs from the first node on and small jobs from the last, which keeps whole nodes free for gangs."""

from __future__ import annotations

from dataclasses import dataclass

from weft.policy import Free, Placement, Shape, Yarn


@dataclass(frozen=True)
class Apart(Placement):
    """Gangs first fit, small jobs last fit."""

    small: int = 1
    """Jobs of up to this many GPUs go to the last nodes."""

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        nodes = free.at_least(shape.gpus)
        if shape.gpus > self.small or not nodes:
            return Yarn().place(shape, free)
        return ((nodes.bit_length() - 1, shape.gpus),)
