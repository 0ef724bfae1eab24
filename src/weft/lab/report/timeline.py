"""The cluster over time, averaged over equal time bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.history.metrics.records import ClusterRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIME_BINS: Final = 100


@dataclass(frozen=True)
class Timeline:
    edges_s: NDArray[np.float64]
    """The limits of the bins, one more than there are bins."""
    utilisation: NDArray[np.float64]
    pending: NDArray[np.float64]
    blocking: NDArray[np.float64]


def build_timeline(rows: Sequence[ClusterRow], bins: int = TIME_BINS) -> Timeline:
    """Average the rows over bins. A row is valid until the next; the last row marks the end."""
    import numpy as np

    table = np.asarray(rows, dtype=np.float64).reshape(-1, 6)
    at, busy, gpus, pending, _, blocking = table.T
    last = float(at[-1]) if len(at) else 0.0
    edges = np.linspace(float(at[0]) if len(at) else 0.0, last, bins + 1)
    present = bin_means(at, gpus, edges)
    used = np.divide(bin_means(at, busy, edges), present, out=np.zeros(bins), where=present > 0)
    return Timeline(edges, used, bin_means(at, pending, edges), bin_means(at, blocking, edges))


def bin_means(at: NDArray[np.float64], value: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of a step function between consecutive edges."""
    import numpy as np

    widths = np.diff(edges)
    if len(at) < 2 or not widths.all():
        return np.zeros(len(widths))
    areas = np.concatenate(([0.0], np.cumsum(value[:-1] * np.diff(at))))
    return np.diff(np.interp(edges, at, areas)) / widths
