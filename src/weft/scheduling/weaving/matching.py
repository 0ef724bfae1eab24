"""Maximum-weight matching, which pairs jobs for weaving.

Few nodes are matched exactly. Nodes of one type are interchangeable, so larger sets are matched by type: halve the
multiplicities, match the half, use that matching twice, and match the remaining nodes again. Many nodes of different
types are matched in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

Weight = Callable[[Hashable, Hashable], float | None]
"""The weight of a pair, in either order; None: the pair is not allowed."""

MAX_EXACT_NODES = 64
SCALE = 10**12
"""Converts weights to whole numbers for the matcher."""


def match(types: Sequence[Hashable], weight: Weight) -> list[tuple[int, int]]:
    """Return the pairs of positions, smaller first, with the largest total weight."""
    return sorted(_exact(types, weight) if len(types) <= MAX_EXACT_NODES else _by_position(types, weight))


def _by_position(types: Sequence[Hashable], weight: Weight) -> list[tuple[int, int]]:
    """Match by type, and return pairs of positions."""
    waiting: dict[Hashable, list[int]] = {}
    for place in range(len(types) - 1, -1, -1):
        waiting.setdefault(types[place], []).append(place)
    pairs = [(waiting[left].pop(), waiting[right].pop()) for left, right in _by_type(Counter(types), weight)]
    return [(min(pair), max(pair)) for pair in pairs]


def _by_type(counts: Counter[Hashable], weight: Weight) -> list[tuple[Hashable, Hashable]]:
    if counts.total() <= MAX_EXACT_NODES:
        nodes = [kind for kind, count in counts.items() for _ in range(count)]
        return [(nodes[a], nodes[b]) for a, b in sorted(_exact(nodes, weight))]
    half = Counter({kind: count // 2 for kind, count in counts.items() if count > 1})
    pairs = _by_type(half, weight) * 2
    rest = counts - Counter(kind for pair in pairs for kind in pair)
    return pairs + (_by_type(rest, weight) if pairs else _in_parts(list(rest.elements()), weight))


def _in_parts(nodes: Sequence[Hashable], weight: Weight) -> list[tuple[Hashable, Hashable]]:
    """Match neighbours in the sequence: as many nodes at a time as are matched exactly."""
    parts = (nodes[at : at + MAX_EXACT_NODES] for at in range(0, len(nodes), MAX_EXACT_NODES))
    return [(part[a], part[b]) for part in parts for a, b in sorted(_exact(part, weight))]


def _exact(types: Sequence[Hashable], weight: Weight) -> set[tuple[int, int]]:
    """Match the complete graph of the nodes with the blossom algorithm."""
    kinds = list(dict.fromkeys(types))
    worth: dict[Hashable, dict[Hashable, int]] = {kind: {} for kind in kinds}
    for at, a in enumerate(kinds):
        for b in kinds[at:]:
            worth[a][b] = worth[b][a] = round((weight(a, b) or 0.0) * SCALE)
    edges = [
        (i, j, value)
        for i, left in enumerate(types)
        for row in (worth[left],)
        for j, right in enumerate(types[i + 1 :], i + 1)
        if (value := row[right]) > 0
    ]
    if len(edges) < 2:
        return {(i, j) for i, j, _ in edges}
    from rustworkx import PyGraph, max_weight_matching  # only weaving needs it

    graph: PyGraph[None, int] = PyGraph()
    graph.add_nodes_from([None] * len(types))
    graph.add_edges_from(edges)
    return {(min(pair), max(pair)) for pair in max_weight_matching(graph, weight_fn=int)}
