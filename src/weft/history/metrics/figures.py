"""Facts in, figures out: the same code for a simulated journal and a live one.

The *JCT* of a job is its end less its submission. A run holds its GPUs from `Start` to `Exited`; a GPU is busy while
any run holds it, and runs that hold it together share its seconds.

*rho* is a job's JCT divided by the time that the job would have taken on an equal share of the cluster. An equal share
is the cluster's GPUs divided by the jobs in the system, both averaged over the job's life. A share of fewer GPUs than
the job has stretches its solo time in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from weft.history.metrics.collector import Collector
from weft.history.metrics.records import ClusterRow, JobRecord
from weft.model import Fact, JobId, Seconds

__all__ = ["ClusterRow", "Figures", "JobRecord", "Record", "figures", "gather"]


@dataclass(frozen=True, slots=True)
class Record:
    """The history of every job, in order of submission, and of the cluster as a whole."""

    jobs: Sequence[JobRecord]
    rows: Sequence[ClusterRow] = ()
    gpus: Sequence[tuple[Seconds, int]] = ()
    """When the number of GPUs changed, and to what; empty: unknown."""
    until: Seconds | None = None
    """The last instant; jobs that have not ended are counted up to it."""
    since: Seconds | None = None
    """The start of makespan and utilisation; None: the first submission."""

    @property
    def first(self) -> Seconds:
        return min(job.submit for job in self.jobs) if self.since is None else self.since


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a record. None: there is nothing to compute the figure from."""

    jobs: int
    finished: int
    """Jobs that ended done; the JCTs count only these."""
    failed: int
    """Jobs that failed for good."""
    unfinished: int
    """Jobs that never ended."""
    avg_jct_s: float | None
    makespan_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    avg_queue_s: float | None
    """Waiting time of jobs that ended done: JCT less the time with GPUs and the time on hold."""
    avg_first_wait_s: float | None
    """From submission to first start, over all jobs that started."""
    gpu_utilisation: float | None
    preemptions: int
    restarts: int
    fairness_max_rho: float | None


def gather(
    facts: Iterable[Fact],
    solo_s: Mapping[JobId, float] | None = None,
    *,
    since: Seconds | None = None,
    until: Seconds = 0.0,
) -> Record:
    """Return the record of a journal. `solo_s`: how long each job takes alone; default: how long it held GPUs. Runs
    count up to the last fact, or to `until`."""
    collector = Collector(solo_s or {})
    collector.add(facts)
    rows = collector.close(until)
    return Record(collector.records(), rows, collector.gpu_changes(), collector.now, since)


def figures(record: Record) -> Figures:
    jobs = record.jobs
    jcts = sorted(job.jct_s for job in jobs if job.jct_s is not None and job.status == "done")
    queues = [job.queue_s for job in jobs if job.status == "done"]
    first_waits = [job.first_wait_s for job in jobs if job.first_wait_s is not None]
    ends = [job.end for job in jobs if job.end is not None]
    rhos = [job.rho for job in jobs if job.rho is not None]
    return Figures(
        jobs=len(jobs),
        finished=len(jcts),
        failed=sum(job.status == "failed" for job in jobs),
        unfinished=len(jobs) - len(ends),
        avg_jct_s=_mean(jcts),
        makespan_s=max(ends) - record.first if ends else None,
        p50_jct_s=_percentile(jcts, 0.5),
        p99_jct_s=_percentile(jcts, 0.99),
        avg_queue_s=_mean(queues),
        avg_first_wait_s=_mean(first_waits),
        gpu_utilisation=_utilisation(record),
        preemptions=sum(job.preemptions for job in jobs),
        restarts=sum(job.restarts for job in jobs),
        fairness_max_rho=max(rhos, default=None),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _percentile(ascending: Sequence[float], fraction: float) -> float | None:
    return ascending[int(len(ascending) * fraction)] if ascending else None


def _utilisation(record: Record) -> float | None:
    """Return busy GPU-seconds over available GPU-seconds, from `record.first` to the last end."""
    jobs = record.jobs
    if not jobs or not record.gpus:
        return None
    first = record.first
    last = max((job.end for job in jobs if job.end is not None), default=first)
    if any(job.end is None for job in jobs):
        if record.until is None:
            return None
        last = max(last, record.until)
    available = _gpu_seconds(record.gpus, first, last)
    return fsum(job.gpu_seconds for job in jobs) / available if available else None


def _gpu_seconds(change_log: Sequence[tuple[Seconds, int]], first: Seconds, last: Seconds) -> float:
    ends = [at for at, _ in change_log[1:]] + [last]
    return fsum(
        gpus * (min(end, last) - max(start, first))
        for (start, gpus), end in zip(change_log, ends, strict=True)
        if min(end, last) > max(start, first)
    )
