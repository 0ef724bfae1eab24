"""The quantile of values that were seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the nearest-rank quantile of sorted values, of which there is at least one."""
    return ordered[max(ceil(len(ordered) * part) - 1, 0)]
