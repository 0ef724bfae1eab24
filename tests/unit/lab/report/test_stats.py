"""Means, intervals, baselines and who is best."""

from __future__ import annotations

from math import isclose, sqrt

import pytest

from weft.lab.report.stats import (
    FIGURES,
    Estimate,
    Outcome,
    best_policies,
    choose_baseline,
    estimate,
    ratio,
    summarise,
    t_975,
)


def did(policy: str, jct_s: float | None, failed: str = "", **more: float) -> Outcome:
    run: dict[str, float | None] = {**dict.fromkeys(FIGURES, 1.0), "avg_jct_s": jct_s, **more}
    return summarise(policy, [] if failed else [run], failed)


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (4, 2.776), (30, 2.042), (31, 2.0395), (60, 2.0003), (120, 1.9799), (999, 1.9623)]
)
def test_students_t(freedom: int, t: float) -> None:
    assert isclose(t_975(freedom), t, abs_tol=6e-4)


def test_an_interval_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found is not None
    assert found.mean == 2.5
    assert found.ci95 is not None
    assert isclose(found.ci95, 3.182 * sqrt(5 / 3 / 4))


def test_an_interval_needs_two() -> None:
    assert estimate([7.0]) == Estimate(7.0, None)
    assert estimate([7.0, None]) == Estimate(7.0, None)
    assert estimate([None]) is None
    assert estimate([3.0, 3.0]) == Estimate(3.0, 0.0)


def test_the_best_is_the_least_but_for_utilisation() -> None:
    some = [did("a", 5.0, gpu_utilisation=0.5), did("b", 4.0, gpu_utilisation=0.9), did("c", None, "broke")]
    assert best_policies(some, "avg_jct_s") == {"b"}
    assert best_policies(some, "gpu_utilisation") == {"b"}
    assert best_policies(some, "makespan_s") == set(), "all alike"


def test_the_baseline() -> None:
    some = [did("a", 5.0), did("b", 4.0), did("c", 1.0, "broke")]
    assert choose_baseline(some, "a") is some[0]
    assert choose_baseline(some, None) is some[1]
    assert choose_baseline(some, "c") is some[1], "what failed is nothing to compare with"
    assert choose_baseline([some[2]], None) is None
    assert ratio(some[0], some[1], "avg_jct_s") == 1.25
    assert ratio(some[2], some[1], "avg_jct_s") is None
    assert ratio(some[0], None, "avg_jct_s") is None
