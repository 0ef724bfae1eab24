"""The order of jobs, by key and by class."""

from __future__ import annotations

import numpy as np
import pytest

from weft.scheduling.weaving.valuation import MIN_QUICK, group_by_class, stable_order


@pytest.mark.parametrize("classes", [3, 300, 40_000, 70_000])
def test_jobs_are_grouped_by_class_however_many_classes_there_are(classes: int) -> None:
    class_of = np.array([classes - 1, 0, classes - 1, 1])
    grouped, ends = group_by_class(class_of, np.array([3, 2, 1, 0]), classes)
    assert grouped.tolist() == [1, 3, 2, 0]
    assert [ends[0], ends[1], ends[-2], ends[-1]] == [1, 2, 2, 4]


@pytest.mark.parametrize("distinct", [1, 40, 1000, 10**9])
@pytest.mark.parametrize("count", [0, 1, MIN_QUICK - 1, MIN_QUICK, 3000])
def test_equal_keys_stay_in_order(count: int, distinct: int) -> None:
    keys = np.random.default_rng(7).integers(0, distinct, count) / 7
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
