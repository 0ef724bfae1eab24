"""Who is woven with whom: maximum-weight matching.

Exact over nodes while they are few. Nodes of one type are interchangeable, so many are matched by type: halve the
multiplicities, match the half, take that twice, and match anew what is left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

Weight = Callable[[Hashable, Hashable], float | None]
"""What a pair is worth; None: it must not be."""

EXACT_UP_TO = 64
SCALE = 10**12
"""The matcher takes whole numbers."""


def match(types: Sequence[Hashable], weight: Weight) -> list[tuple[int, int]]:
    """Pairs of positions, smaller first, that are worth most together."""
    return sorted(_exact(types, weight) if len(types) <= EXACT_UP_TO else _by_position(types, weight))


def _by_position(types: Sequence[Hashable], weight: Weight) -> list[tuple[int, int]]:
    """A matching by type, laid out over the positions."""
    waiting: dict[Hashable, list[int]] = {}
    for place in range(len(types) - 1, -1, -1):
        waiting.setdefault(types[place], []).append(place)
    pairs = [(waiting[left].pop(), waiting[right].pop()) for left, right in _by_type(Counter(types), weight)]
    return [(min(pair), max(pair)) for pair in pairs]


def _by_type(counts: Counter[Hashable], weight: Weight) -> list[tuple[Hashable, Hashable]]:
    if counts.total() <= EXACT_UP_TO:
        nodes = [kind for kind, count in counts.items() for _ in range(count)]
        return [(nodes[a], nodes[b]) for a, b in sorted(_exact(nodes, weight))]
    half = Counter({kind: count // 2 for kind, count in counts.items() if count > 1})
    pairs = _by_type(half, weight) * 2
    rest = counts - Counter(kind for pair in pairs for kind in pair)
    if pairs and rest.total() < counts.total():
        pairs += _by_type(rest, weight)
    return pairs


def _exact(types: Sequence[Hashable], weight: Weight) -> set[tuple[int, int]]:
    """General matching (blossom) over the complete graph of the nodes."""
    kinds = dict.fromkeys(types)
    worth = {a: {b: round((weight(a, b) or 0.0) * SCALE) for b in kinds} for a in kinds}
    edges = [
        (i, j, value)
        for i, left in enumerate(types)
        for row in (worth[left],)
        for j, right in enumerate(types[i + 1 :], i + 1)
        if (value := row[right]) > 0
    ]
    if len(edges) < 2:
        return {(i, j) for i, j, _ in edges}
    from rustworkx import PyGraph, max_weight_matching  # only where weaving happens

    graph: PyGraph[None, int] = PyGraph()
    graph.add_nodes_from([None] * len(types))
    graph.add_edges_from(edges)
    return {(min(pair), max(pair)) for pair in max_weight_matching(graph, weight_fn=int)}
