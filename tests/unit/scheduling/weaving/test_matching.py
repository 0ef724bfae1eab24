"""Matchings of jobs: of the greatest total worth, or nearly so where there are many."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import profile
from weft.scheduling.weaving import matching
from weft.scheduling.weaving.pace import Pace
from weft.sim.traces.profiles import MODELS
from weft.sim.traces.profiles import profile as measured

Weights = dict[tuple[int, int], float | None]


def total(types: Sequence[Hashable], weight: matching.Weight, pairs: list[tuple[int, int]]) -> float:
    """Return their worth; every node at most once, every pair allowed."""
    nodes = [node for pair in pairs for node in pair]
    assert len(set(nodes)) == len(nodes)
    assert all(0 <= a < b < len(types) for a, b in pairs)
    worth = [weight(types[a], types[b]) for a, b in pairs]
    assert None not in worth
    return sum(value or 0.0 for value in worth)


def best(types: tuple[int, ...], weight: matching.Weight) -> float:
    """By trying everything."""

    @cache
    def of(left: tuple[int, ...]) -> float:
        if len(left) < 2:
            return 0.0
        first, rest = left[0], left[1:]
        tries = [of(rest)]
        for place, other in enumerate(rest):
            value = weight(types[first], types[other])
            if value is not None:
                tries.append(value + of(rest[:place] + rest[place + 1 :]))
        return max(tries)

    return of(tuple(range(len(types))))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[int, ...], Weights]:
    kinds = draw(st.integers(1, 5))
    worth = st.one_of(st.none(), st.floats(0.0, 1.0).map(lambda value: round(value, 6)))
    weights: Weights = {}
    for a in range(kinds):
        for b in range(a, kinds):
            weights[a, b] = weights[b, a] = draw(worth)
    return tuple(draw(st.lists(st.integers(0, kinds - 1), max_size=8))), weights


@given(graph=graphs())
def test_a_small_graph_is_matched_as_well_as_can_be(graph: tuple[tuple[int, ...], Weights]) -> None:
    types, weights = graph

    def weight(a: Hashable, b: Hashable) -> float | None:
        return weights[a, b]  # type: ignore[index]

    pairs = matching.match(types, weight)
    assert pairs == sorted(pairs)
    assert total(types, weight, pairs) == pytest.approx(best(types, weight), abs=1e-9)


def models_weight() -> matching.Weight:
    pace = Pace()

    @cache
    def weight(a: Hashable, b: Hashable) -> float:
        return pace.efficiency([measured(str(a), 1), measured(str(b), 1)])

    return weight


@pytest.mark.parametrize("seed", range(6))
def test_a_large_graph_is_matched_nearly_as_well_as_can_be(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = random.Random(seed)
    types, weight = draws.choices(MODELS, k=draws.randint(80, 120)), models_weight()
    found = total(types, weight, matching.match(types, weight))
    monkeypatch.setattr(matching, "MAX_EXACT_NODES", 1000)
    assert found >= 0.98 * total(types, weight, matching.match(types, weight))


def test_a_large_graph_of_arbitrary_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = random.Random(7)
    worth = {frozenset((a, b)): draws.uniform(0.1, 1.0) for a in range(12) for b in range(12)}
    types = draws.choices(range(12), k=101)

    def weight(a: Hashable, b: Hashable) -> float | None:
        return worth[frozenset((a, b))]  # type: ignore[arg-type]

    found = total(types, weight, matching.match(types, weight))
    monkeypatch.setattr(matching, "MAX_EXACT_NODES", 1000)
    assert found >= 0.98 * total(types, weight, matching.match(types, weight))


@pytest.mark.parametrize("alike", [0, 2])
def test_many_nodes_that_all_differ_are_matched(alike: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured profiles are hardly ever the same."""
    draws = random.Random(3)
    types = [*(draws.random() for _ in range(150)), *[0.5] * alike]

    def weight(a: Hashable, b: Hashable) -> float:
        return float(abs(a - b))  # type: ignore[operator]

    found = total(types, weight, matching.match(types, weight))
    monkeypatch.setattr(matching, "MAX_EXACT_NODES", 1000)
    assert found >= 0.95 * total(types, weight, matching.match(types, weight))


def test_nobody_is_matched_with_whom_it_must_not_be() -> None:
    assert matching.match(["a"] * 100, lambda _a, _b: None) == []
    assert matching.match([], lambda _a, _b: 1.0) == []
    assert matching.match(["a", "b", "a"], lambda a, b: 1.0 if a != b else None) in ([(0, 1)], [(1, 2)])


def test_what_complements_each_other_is_woven() -> None:
    data, gpu = profile(8, 1, 1), profile(1, 8, 1)
    pace = Pace()
    pairs = matching.match([data, data, gpu, gpu], lambda a, b: pace.efficiency([a, b]))  # type: ignore[list-item]
    assert {frozenset(pair) for pair in pairs} in (
        {frozenset((0, 2)), frozenset((1, 3))},
        {frozenset((0, 3)), frozenset((1, 2))},
    )
