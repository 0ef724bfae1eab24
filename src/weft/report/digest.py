"""One simulation, made small enough to be sent between processes and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.core.metrics.figures import Record
from weft.core.metrics.records import JobRecord
from weft.model import Fact
from weft.report.gantt import Gantt, chart
from weft.report.timeline import Timeline, sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUANTILES: Final = 1000
"""A curve of more points looks the same."""


@dataclass(frozen=True)
class Digest:
    jcts_s: NDArray[np.float64]
    """Ascending; where there are many, evenly spaced quantiles of them."""
    timeline: Timeline
    gantt: Gantt


def digest(facts: Iterable[Fact], record: Record, measured: Sequence[JobRecord]) -> Digest:
    """What to draw of a journal; JCTs of the measured jobs only."""
    jcts = [job.jct_s for job in measured if job.status == "done" and job.jct_s is not None]
    return Digest(thin(jcts), sample(record.rows), chart(facts))


def thin(values: Sequence[float], points: int = QUANTILES) -> NDArray[np.float64]:
    """The values in order, or so many of them, the least and the largest among them."""
    import numpy as np

    ascending = np.sort(np.asarray(values, dtype=np.float64))
    if len(ascending) <= points:
        return ascending
    return np.take(ascending, np.linspace(0, len(ascending) - 1, points).round().astype(int))
