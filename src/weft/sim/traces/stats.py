"""Statistics of a trace: number, arrivals, sizes and durations of jobs, and the load that they offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum
from typing import Any, Final

from weft.sim.traces.trace import Trace

PERCENTILES: Final = (("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99))


def survey(trace: Trace, cluster_gpus: int | None = None) -> dict[str, Any]:
    """Return the statistics of a trace as JSON values. None: the trace lacks the data."""
    jobs = trace.jobs
    submits_s = [each.submit_s for each in jobs]
    span_s = submits_s[-1] - submits_s[0]
    gpu_s = fsum(each.work_s * each.job.gpus for each in jobs)
    memory_mb = [each.job.memory_mb.max for each in jobs if each.job.memory_mb]
    found: dict[str, Any] = {
        "trace": trace.name,
        "format": trace.format,
        "jobs": len(jobs),
        "first_submit_s": submits_s[0],
        "span_s": span_s,
        "arrivals_per_h": (len(jobs) - 1) / span_s * 3600 if span_s else None,
        "gpu_hours": gpu_s / 3600,
        "users": len({each.job.user for each in jobs} - {""}),
        "interarrival_s": spread([after - before for before, after in pairwise(submits_s)]),
        "duration_s": spread([each.work_s for each in jobs]),
        "gpus": spread([each.job.gpus for each in jobs]),
        "memory_mb": spread(memory_mb),
        "jobs_by_gpus": dict(sorted(Counter(each.job.gpus for each in jobs).items())),
        "jobs_by_user": _count_names(each.job.user for each in jobs),
        "jobs_by_model": _count_names(each.job.profile.model if each.job.profile else "" for each in jobs),
    }
    if cluster_gpus is not None:
        found["cluster_gpus"] = cluster_gpus
        found["offered_load"] = gpu_s / (cluster_gpus * span_s) if span_s else None
    return found


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return percentiles, mean and maximum. A percentile is the value at index int(n x fraction) of the sorted list."""
    if not values:
        return None
    ascending = sorted(values)
    found = {name: ascending[int(len(ascending) * fraction)] for name, fraction in PERCENTILES}
    mean = fsum(values) / len(values)
    # the mean is shown after the median
    return {"p25": found["p25"], "p50": found["p50"], "mean": mean, **found, "max": ascending[-1]}


def _count_names(names: Iterable[str]) -> dict[str, int]:
    """Return the counts by name, the most frequent first, ties by name."""
    counts = Counter(name for name in names if name)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
