"""Partitions of a gang over nodes, as placements have them in common."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.resources.free import Free

Parts = tuple[tuple[int, int], ...]
"""Pairs of a node (its index in `Free`) and a number of GPUs."""


def fill(need: int, nodes: Iterable[int], free: Free) -> Parts | None:
    """Take all that each node can give, in this order, until it is enough; None if it never is."""
    parts = []
    for node in nodes:
        take = min(need, free.count[node])
        parts.append((node, take))
        need -= take
        if not need:
            return tuple(parts)
    return None


def fill_whole(need: int, nodes: Iterable[int], free: Free) -> tuple[Parts, int, Free]:
    """Take whole nodes in this order, none larger than the rest of the need; return parts, rest and other nodes."""
    parts = []
    for node in nodes:
        if not need:
            break
        if free.size[node] <= need:
            parts.append((node, free.size[node]))
            need -= free.size[node]
    taken = sum(1 << node for node, _ in parts)
    return tuple(parts), need, free.masked(free.mask & ~taken)
