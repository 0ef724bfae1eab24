"""A simulation reduced to the data of its pictures, small enough to send between processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.history.metrics.figures import Record
from weft.history.metrics.records import JobRecord
from weft.lab.report.gantt import Gantt, build_gantt
from weft.lab.report.timeline import Timeline, build_timeline
from weft.model import Fact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CURVE_POINTS: Final = 1000
"""More points do not change how a curve looks."""


class ServiceSeries(NamedTuple):
    """A service over time."""

    times_s: Sequence[float]
    rates: Sequence[float]
    """Requests per second."""
    replicas: Sequence[int]
    p95_times_s: Sequence[float]
    p95s_s: Sequence[float]


class Served(NamedTuple):
    """Services next to training: each service over time, and the GPUs in use."""

    services: Mapping[str, ServiceSeries]
    gpu_times_s: Sequence[float]
    gpus: Sequence[int]


@dataclass(frozen=True)
class Digest:
    jcts_s: NDArray[np.float64]
    """Ascending; reduced to evenly spaced quantiles if there are many."""
    timeline: Timeline
    gantt: Gantt
    served: Served | None = None
    """None: no services."""


def make_digest(
    facts: Iterable[Fact], record: Record, measured: Sequence[JobRecord], served: Served | None = None
) -> Digest:
    """Reduce a journal to the data of its pictures, with the JCTs of the measured jobs only."""
    jcts = [job.jct_s for job in measured if job.status == "done" and job.jct_s is not None]
    return Digest(pick_quantiles(jcts), build_timeline(record.rows), build_gantt(facts), served)


def pick_quantiles(values: Sequence[float], points: int = MAX_CURVE_POINTS) -> NDArray[np.float64]:
    """Return the values in order, at most `points` of them, including the smallest and the largest."""
    import numpy as np

    ascending = np.sort(np.asarray(values, dtype=np.float64))
    if len(ascending) <= points:
        return ascending
    return np.take(ascending, np.linspace(0, len(ascending) - 1, points).round().astype(int))
