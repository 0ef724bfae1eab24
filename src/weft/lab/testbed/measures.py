"""Measurements of a cell, from the journal of its scheduler: figures in trace time, latencies, use of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.history.metrics.figures import figures
from weft.history.metrics.history import Selection, in_trace_time, read_history
from weft.history.metrics.quantile import quantile
from weft.history.metrics.records import ClusterRow
from weft.model import Exited, Fact, Job, JobId, Start, Started, Stop

if TYPE_CHECKING:
    from weft.lab.report.digest import Digest


@dataclass(frozen=True)
class Latency:
    """Milliseconds between a decision and its effect."""

    count: int
    p50_ms: float | None
    p90_ms: float | None


def facts_of(facts: Iterable[Fact], group: str) -> list[Fact]:
    """Return the facts of the cluster and of the jobs of a group: a scheduler may have run other cells before."""
    found: list[Fact] = []
    ids: set[JobId] = set()
    for fact in facts:
        job = getattr(fact, "job", None)
        if isinstance(job, Job) and job.group == group:
            ids.add(job.id)
        if job is None or (job.id if isinstance(job, Job) else job) in ids:
            found.append(fact)
    return found


def figures_of(facts: Sequence[Fact], speed: float, group: str) -> dict[str, Any]:
    """Return the figures of the jobs of a group, in the seconds of the trace."""
    record = Selection(group=group).of(read_history(facts).record)
    return asdict(figures(in_trace_time(record, speed)))


def latencies(facts: Iterable[Fact]) -> dict[str, Latency]:
    """Return how long starts and stops took: from the decision until the run works, or is gone."""
    due: dict[tuple[type[Fact], JobId, int], float] = {}
    starts_ms: list[float] = []
    stops_ms: list[float] = []
    for fact in facts:
        match fact:
            case Start() | Stop():
                due[type(fact), fact.job, fact.run] = fact.at
            case Started():
                if (at := due.pop((Start, fact.job, fact.run), None)) is not None:
                    starts_ms.append(1000 * (fact.at - at))
            case Exited():
                if (at := due.pop((Stop, fact.job, fact.run), None)) is not None:
                    stops_ms.append(1000 * (fact.at - at))
    return {"start": _latency(starts_ms), "stop": _latency(stops_ms)}


def weave_sizes(facts: Iterable[Fact]) -> dict[int, int]:
    """Return the number of starts by the number of jobs in the weave; 1: alone."""
    return dict(sorted(Counter(max(len(fact.weave), 1) for fact in facts if isinstance(fact, Start)).items()))


def digest_of(facts: Sequence[Fact], speed: float, group: str) -> Digest:
    """Return the data of the pictures of a cell, in the seconds of the trace."""
    from weft.lab.report.digest import Digest, pick_quantiles
    from weft.lab.report.gantt import build_gantt
    from weft.lab.report.timeline import build_timeline

    whole = read_history(facts).record
    record = Selection(group=group).of(whole)
    first = min((job.submit for job in record.jobs), default=0.0)
    last = max((job.end for job in record.jobs if job.end is not None), default=first)
    rows: list[ClusterRow] = [((at - first) * speed, *rest) for at, *rest in whole.rows if first <= at <= last]  # type: ignore[misc]
    jcts = [job.jct_s * speed for job in record.jobs if job.status == "done" and job.jct_s is not None]
    return Digest(pick_quantiles(jcts), build_timeline(rows), build_gantt(facts))


def as_json(found: Mapping[str, Latency]) -> dict[str, Any]:
    return {name: asdict(latency) for name, latency in found.items()}


def _latency(values_ms: list[float]) -> Latency:
    values_ms.sort()
    if not values_ms:
        return Latency(0, None, None)
    return Latency(len(values_ms), round(quantile(values_ms, 0.5), 2), round(quantile(values_ms, 0.9), 2))
