"""Balanced: the node with the lowest load, which is active tasks / GPUs - free GPUs / GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.shapes import Shape

MAX_SCANNED_NODES = 4
"""Up to this number of nodes, examining each is faster than updating an index of all."""


@dataclass(frozen=True)
class Balanced(Placement):
    """Load spread evenly, counting tasks and free GPUs."""

    sees_runs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        splits = shape.gpus > free.largest()
        by_load = _by_load(shape, free, splits=splits)
        parts, need = [], shape.gpus
        for load in sorted(by_load):
            for node in members(by_load[load]):
                parts.append((node, min(need, free.count[node])))
                need -= parts[-1][1]
                if not need:
                    return tuple(parts)
        return None


def _by_load(shape: Shape, free: Free, *, splits: bool) -> dict[float, int]:
    """Return the nodes with enough free GPUs, or with any if the gang splits, as sets by load."""
    able = free.at_least(1 if splits else shape.gpus)
    found: dict[float, int] = {}
    if shape.plain and able.bit_count() > MAX_SCANNED_NODES:
        return _by_load_indexed(free, able, splits=splits)
    for node in members(able):
        load = _load(shape, free, node)
        found[load] = found.get(load, 0) | 1 << node
    return found


def _by_load_indexed(free: Free, able: int, *, splits: bool) -> dict[float, int]:
    """Return the same as `_by_load`, without examining each node."""
    found: dict[float, int] = {}
    for tasks, equally_busy in enumerate(free.tiers()):
        for size, sized in enumerate(free.sized):
            nodes = able & equally_busy & sized
            for idle in range(size, 0, -1) if nodes else ():
                alike = nodes & free.levels[idle]
                if alike:
                    load = (tasks - idle) / size
                    found[load] = found.get(load, 0) | alike
                    if not splits:
                        break  # nodes with fewer idle GPUs have a higher load
    return found


def _load(shape: Shape, free: Free, node: int) -> float:
    """Return the load, counting all GPUs without a run as idle, whether or not they suit this shape."""
    holders = free.nodes[node].holders
    idle = free.count[node] if shape.plain else sum(not any(map(free.stays, gpu)) for gpu in holders)
    return (free.tasks(node) - idle) / len(holders)
