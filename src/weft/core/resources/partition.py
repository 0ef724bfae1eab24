"""Spreading a gang over nodes: what placements have in common."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.resources.free import Free

Parts = tuple[tuple[int, int], ...]
"""How many GPUs on which node (its place in `Free`)."""


def fill(need: int, nodes: Iterable[int], free: Free) -> Parts | None:
    """All that each node can give, in this order, until it is enough."""
    parts = []
    for node in nodes:
        take = min(need, free.count[node])
        parts.append((node, take))
        need -= take
        if not need:
            return tuple(parts)
    return None


def fill_whole(need: int, nodes: Iterable[int], free: Free) -> tuple[Parts, int, Free]:
    """Whole nodes in this order, none larger than what is needed still; the rest of the need; the other nodes."""
    parts = []
    for node in nodes:
        if not need:
            break
        if free.size[node] <= need:
            parts.append((node, free.size[node]))
            need -= free.size[node]
    taken = sum(1 << node for node, _ in parts)
    return tuple(parts), need, free.masked(free.mask & ~taken)
