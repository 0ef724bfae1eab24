"""The history of a scheduler as a trace: what its jobs asked for, when, and the work that each of them was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from math import isclose
from typing import Final

from weft.history.metrics.history import History
from weft.history.metrics.records import JobRecord
from weft.history.metrics.work import declared_length_s
from weft.model import Job, JobId, Where
from weft.sim.traces.profiles import UNMEASURED
from weft.sim.traces.trace import Trace, TraceJob

DIGITS: Final = 3
"""Digits of the seconds of a live history. Its clock, in seconds since 1970, has few more."""
SHORTEST_S: Final = 10.0**-DIGITS
TOLERANCE: Final = 1e-6
LOSSES: Final[tuple[tuple[str, Callable[[Job], object]], ...]] = (
    ("dependencies", lambda job: job.comes_after),
    ("limits of arrays", lambda job: job.batch_limit),
    ("choices of GPUs", lambda job: job.where.choice),
)
"""Parts of a job that a trace cannot carry."""


@dataclass(frozen=True, slots=True)
class Export:
    trace: Trace
    left_out: dict[str, int]
    """Jobs that are not in the trace, by reason."""
    lost: dict[str, int]
    """Parts of its jobs that the trace lacks, with the number of jobs concerned."""


def export(history: History, chosen: Collection[JobRecord], *, name: str, anonymise: bool = False) -> Export:
    """Return the chosen jobs of a history as a trace. A live history begins at 0 with its first job."""
    left_out: dict[str, int] = {}
    kept = list(_kept(history, chosen, left_out))
    first_s = 0.0 if history.simulated or not kept else min(record.submit for record, _ in kept)
    jobs = [_trace_job(history, record, work_s, first_s) for record, work_s in kept]
    jobs.sort(key=lambda each: each.submit_s)
    lost = {what: count for what, has in LOSSES if (count := sum(bool(has(history.jobs[r.id])) for r, _ in kept))}
    if anonymise:
        jobs = _anonymous(jobs, lost)
    return Export(Trace(name, "weft", tuple(jobs)), left_out, lost)


def _kept(
    history: History, chosen: Collection[JobRecord], left_out: dict[str, int]
) -> Iterator[tuple[JobRecord, float]]:
    """Yield the jobs that a trace can hold, with their work."""
    for record in chosen:
        work = history.work[record.id]
        work_s = work.kept_s if record.status == "done" else work.spent_s
        if record.end is None:
            reason = "not ended"
        elif not record.gpus:
            reason = "without GPUs"
        elif work_s <= 0:
            reason = "never run"
        else:
            yield record, work_s
            continue
        left_out[reason] = left_out.get(reason, 0) + 1


def _trace_job(history: History, record: JobRecord, work_s: float, first_s: float) -> TraceJob:
    job, submit_s = history.jobs[record.id], record.submit - first_s
    if not history.simulated:
        submit_s, work_s = round(submit_s, DIGITS), max(round(work_s, DIGITS), SHORTEST_S)
    declared_s = declared_length_s(job)
    if job.iterations is not None and (declared_s is None or not isclose(declared_s, work_s, rel_tol=TOLERANCE)):
        job = replace(job, iterations=None)
    job = replace(
        job, profile=job.profile or UNMEASURED, where=replace(job.where, choice=()), command=(), params=(), task=None,
        after=(), after_any=(), after_failed=(), batch="", batch_limit=0,
    )  # fmt: skip
    return TraceJob(submit_s, job, work_s)


def _anonymous(jobs: list[TraceJob], lost: dict[str, int]) -> list[TraceJob]:
    """Number users and jobs, and drop names, labels and names of nodes."""
    users: dict[str, str] = {}
    found: list[TraceJob] = []
    for number, each in enumerate(jobs):
        job = each.job
        user = users.setdefault(job.user, f"user{len(users)}") if job.user else ""
        for what, has in (("labels", job.where.labels), ("pinned GPUs", job.where.pinned)):
            if has:
                lost[what] = lost.get(what, 0) + 1
        named: Job = replace(job, id=JobId(str(number)), user=user, name="", where=Where(job.where.gpu_model))
        found.append(replace(each, job=named))
    return found
