"""The cluster over time, averaged over equal stretches of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.core.metrics.records import ClusterRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STRETCHES: Final = 100


@dataclass(frozen=True)
class Timeline:
    edges_s: NDArray[np.float64]
    """Where the stretches begin and end: one more than there are stretches."""
    utilisation: NDArray[np.float64]
    pending: NDArray[np.float64]
    blocking: NDArray[np.float64]


def sample(rows: Sequence[ClusterRow], stretches: int = STRETCHES) -> Timeline:
    """Each row holds until the next; the last one ends it."""
    import numpy as np

    table = np.asarray(rows, dtype=np.float64).reshape(-1, 6)
    at, busy, gpus, pending, _, blocking = table.T
    last = float(at[-1]) if len(at) else 0.0
    edges = np.linspace(float(at[0]) if len(at) else 0.0, last, stretches + 1)
    there = means(at, gpus, edges)
    used = np.divide(means(at, busy, edges), there, out=np.zeros(stretches), where=there > 0)
    return Timeline(edges, used, means(at, pending, edges), means(at, blocking, edges))


def means(at: NDArray[np.float64], value: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of a step function between each edge and the next."""
    import numpy as np

    widths = np.diff(edges)
    if len(at) < 2 or not widths.all():
        return np.zeros(len(widths))
    areas = np.concatenate(([0.0], np.cumsum(value[:-1] * np.diff(at))))
    return np.diff(np.interp(edges, at, areas)) / widths
