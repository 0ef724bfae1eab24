"""Memory fit: the GPUs with the least sufficient memory, so that larger ones stay free for larger jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import NodeResources, memory_held
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class MemoryFit(Placement):
    """Best fit by GPU memory."""

    sees_runs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        if shape.gpus <= free.largest():
            able = members(free.at_least(shape.gpus))
            node = min(able, key=lambda node: (_waste(shape, free, node), node), default=None)
            return None if node is None else ((node, shape.gpus),)
        parts, need = [], shape.gpus
        for node in free.idle_nodes():
            parts.append((node, min(need, free.size[node])))
            need -= parts[-1][1]
            if not need:
                return tuple(parts)
        return None

    def pick(self, host: NodeResources, count: int, shape: Shape, fitting: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(sorted(fitting, key=lambda gpu: (_left_mb(host, gpu), gpu))[:count]))


def _waste(shape: Shape, free: Free, node: int) -> float:
    """Return the memory left over on the tightest sufficient GPUs of a node."""
    host, need = free.nodes[node], shape.memory_mb.max
    left = sorted(_left_mb(host, gpu, free) for gpu in free.gpus(node, shape))
    return sum(left[: shape.gpus]) - need * shape.gpus


def _left_mb(host: NodeResources, gpu: int, free: Free | None = None) -> int:
    holders = [holder for holder in host.holders[gpu] if free is None or free.stays(holder)]
    held = sum(memory_held(holder, host.node.id, gpu) for holder in holders)
    return host.node.gpus[gpu].memory_mb - held
