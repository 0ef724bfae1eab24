"""Ways to split a gang over nodes, which placements share."""

from __future__ import annotations

from collections.abc import Iterable

from weft.scheduling.core.resources.free import Free

Parts = tuple[tuple[int, int], ...]
"""Pairs of a node (its index in `Free`) and a number of GPUs."""


def fill(need: int, nodes: Iterable[int], free: Free) -> Parts | None:
    """Take all free GPUs of each node, in this order, until there are enough; None if there never are."""
    parts = []
    for node in nodes:
        take = min(need, free.count[node])
        parts.append((node, take))
        need -= take
        if not need:
            return tuple(parts)
    return None


def fill_whole(need: int, nodes: Iterable[int], free: Free) -> tuple[Parts, int, Free]:
    """Take whole nodes in this order, except nodes with more GPUs than are still needed.

    Return the parts, the number of GPUs still needed, and the nodes that were not taken.
    """
    parts = []
    for node in nodes:
        if not need:
            break
        if free.size[node] <= need:
            parts.append((node, free.size[node]))
            need -= free.size[node]
    taken = sum(1 << node for node, _ in parts)
    return tuple(parts), need, free.masked(free.mask & ~taken)
