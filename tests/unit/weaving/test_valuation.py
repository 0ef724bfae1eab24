"""The order of jobs by class."""

from __future__ import annotations

import numpy as np
import pytest

from weft.weaving.valuation import group_by_class


@pytest.mark.parametrize("classes", [3, 300, 40_000, 70_000])
def test_jobs_are_grouped_by_class_however_many_classes_there_are(classes: int) -> None:
    class_of = np.array([classes - 1, 0, classes - 1, 1])
    grouped, ends = group_by_class(class_of, np.array([3, 2, 1, 0]), classes)
    assert grouped.tolist() == [1, 3, 2, 0]
    assert [ends[0], ends[1], ends[-2], ends[-1]] == [1, 2, 2, 4]
