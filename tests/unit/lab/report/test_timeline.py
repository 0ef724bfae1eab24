"""Means of step functions, and JCTs thinned to what a curve needs."""

from __future__ import annotations

import numpy as np
import pytest

from weft.lab.report.digest import pick_quantiles
from weft.lab.report.timeline import bin_means, build_timeline


def test_means_of_a_step_function() -> None:
    at, value = np.array([0.0, 1.0, 3.0, 4.0]), np.array([2.0, 6.0, 0.0, 9.0])
    assert bin_means(at, value, np.array([0.0, 2.0, 4.0])).tolist() == [4.0, 3.0]


def test_a_timeline() -> None:
    rows = [(0.0, 0, 4, 2, 0, 0.0), (10.0, 4, 4, 0, 1, 0.5), (30.0, 4, 8, 6, 1, 1.5), (40.0, 0, 8, 0, 0, 0.0)]
    found = build_timeline(rows, bins=4)
    assert found.edges_s.tolist() == [0, 10, 20, 30, 40]
    assert found.utilisation.tolist() == [0, 1, 1, 0.5]
    assert found.pending.tolist() == [2, 0, 0, 6]
    assert found.blocking.tolist() == [0, 0.5, 0.5, 1.5]


@pytest.mark.parametrize("rows", [[], [(5.0, 1, 4, 0, 1, 0.0)]])
def test_a_timeline_of_nothing(rows: list[tuple[float, int, int, int, int, float]]) -> None:
    assert not build_timeline(rows).utilisation.any()


def test_thinning_keeps_the_ends() -> None:
    assert pick_quantiles([3.0, 1.0, 2.0]).tolist() == [1, 2, 3]
    few = pick_quantiles([float(n) for n in range(100_000)], points=11)
    assert few.tolist() == [round(n * 9999.9) for n in range(11)]
