"""FGD, fragmentation gradient descent (ATC'23): where the least becomes useless for what is asked for lately.

A node's free GPUs are useless to a demand that needs more than it has free. Fragmentation is how many are useless,
averaged over the recent mix of demands; the job goes where that grows least.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import Placement
from weft.core.resources.free import Free
from weft.core.resources.partition import fill_whole
from weft.core.resources.shapes import Shape


@dataclass(frozen=True)
class Fgd(Placement):
    """Least growth of fragmentation under the recent mix of demands."""

    fills_nodes = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        need = shape.gpus
        if need > free.largest():
            return _whole_nodes(need, free)
        best: tuple[float, int, int] | None = None
        for count in range(need, len(free.levels)):
            nodes = free.levels[count] & free.mask
            if nodes:
                growth = useless(count - need, free) - useless(count, free)
                node = (nodes & -nodes).bit_length() - 1
                if best is None or (growth, count) < best[:2]:
                    best = growth, count, node
        return None if best is None else ((best[2], need),)


def useless(count: int, free: Free) -> float:
    """How many of a node's free GPUs the recent demands could not use, on average."""
    total = sum(free.recent.values())
    if not total:
        return 0.0
    refused = sum(often for shape, often in free.recent.items() if min(shape.gpus, free.top) > count)
    return count * refused / total


def _whole_nodes(need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    """A gang that no node could hold takes idle nodes, and its rest where it leaves least useless."""
    parts, need, others = fill_whole(need, free.idle_nodes(), free)
    if not need:
        return parts
    rest = others.tightest(need) if parts else None
    return None if rest is None else (*parts, (rest, need))
