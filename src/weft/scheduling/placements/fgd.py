"""FGD, fragmentation gradient descent (ATC'23): the node whose free GPUs stay most useful for recent demands.

A node's free GPUs are useless to a demand for more GPUs than it has free. Fragmentation is the number of useless GPUs,
averaged over the recent mix of demands. The job goes where fragmentation grows least.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.partition import fill_whole
from weft.scheduling.core.resources.shapes import Shape


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
                growth = count_useless(count - need, free) - count_useless(count, free)
                node = (nodes & -nodes).bit_length() - 1
                if best is None or (growth, count) < best[:2]:
                    best = growth, count, node
        return None if best is None else ((best[2], need),)


def count_useless(count: int, free: Free) -> float:
    """Return how many of a node's free GPUs the recent demands could not use, on average."""
    total = sum(free.recent.values())
    if not total:
        return 0.0
    refused = sum(often for shape, often in free.recent.items() if min(shape.gpus, free.top) > count)
    return count * refused / total


def _whole_nodes(need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    """Place a gang that no node could hold on idle nodes, and its rest on the tightest other node."""
    parts, need, others = fill_whole(need, free.idle_nodes(), free)
    if not need:
        return parts
    rest = others.tightest(need) if parts else None
    return None if rest is None else (*parts, (rest, need))
