"""Writers of traces in the formats that `traces.formats` reads, with what each format cannot carry."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from weft.errors import InputError, UnknownName
from weft.inputs.jsonl import format_cell
from weft.model import WHOLE, Profile
from weft.sim.traces.formats.columns import show_labels, show_pinned, show_share
from weft.sim.traces.profiles import KNOWN, UNMEASURED, iteration_s, profile
from weft.sim.traces.trace import Trace, TraceJob

Cells = dict[str, object]
"""Values by column; None: the cell is empty."""

WEFT: Final = (
    *("job_id", "submit_s", "gpus", "duration_s", "user", "name", "model", "memory_mb", "cpus", "ram_mb", "priority"),
    *("opportunistic", "iterations", "retries", "gpu_model", "share", "labels", "pinned", "declared_s"),
)
ALWAYS: Final = ("job_id", "submit_s", "gpus", "duration_s", "user", "model", "opportunistic")
FIRST_DATE: Final = datetime(1970, 1, 1)
"""The first date of a trace with dates. A later one would lose digits when it is read as seconds."""
_DIGITS: Final = 17


@dataclass(frozen=True, slots=True)
class Writer:
    write: Callable[[Sequence[TraceJob]], str]
    losses: Callable[[TraceJob], Iterable[str]]
    """Return the parts of a job that the format cannot carry."""


def to_bytes(trace: Trace, format: str, *, zipped: bool = False) -> bytes:
    """Return the trace in a format of `WRITERS`. The same trace always gives the same bytes."""
    data = writer(format).write(trace.jobs).encode("utf-8")
    return gzip.compress(data, mtime=0) if zipped else data


def losses(trace: Trace, format: str) -> dict[str, int]:
    """Return what the format cannot carry, with the number of jobs concerned."""
    counts: dict[str, int] = {}
    lost_of = writer(format).losses
    for each in trace.jobs:
        for lost in lost_of(each):
            counts[lost] = counts.get(lost, 0) + 1
    if format == "philly" and trace.jobs and trace.jobs[0].submit_s:
        counts["that the first job is not submitted at 0"] = 1
    return counts


def writer(format: str) -> Writer:
    if format not in WRITERS:
        raise UnknownName("trace format", format, WRITERS)
    return WRITERS[format]


# ---- weft


def _weft_csv(jobs: Sequence[TraceJob]) -> str:
    rows = [_weft(each) for each in jobs]
    used = {name for row in rows for name, value in row.items() if value is not None}
    columns = [name for name in WEFT if name in used or name in ALWAYS]
    return _csv(columns, ([_weft_cell(row[name]) for name in columns] for row in rows))


def _weft_jsonl(jobs: Sequence[TraceJob]) -> str:
    return "".join(json.dumps(_said(_weft(each)), ensure_ascii=False) + "\n" for each in jobs)


def _said(cells: Cells) -> Cells:
    return {name: value for name, value in cells.items() if value is not None and value is not False}


def _weft(each: TraceJob) -> Cells:
    job = each.job
    model, exact = _model(each)
    by_iterations = exact and job.iterations is not None and job.declared_s is not None
    duration_s = job.declared_s if by_iterations else each.work_s
    values: Cells = {
        "job_id": job.id,
        "submit_s": each.submit_s,
        "gpus": job.gpus,
        "duration_s": duration_s,
        "user": job.user or None,
        "name": job.name or None,
        "model": model or None,
        "memory_mb": job.memory_mb.plain() or None,
        "cpus": job.cpus or None,
        "ram_mb": job.ram_mb or None,
        "priority": job.priority or None,
        "opportunistic": job.opportunistic,
        "iterations": job.iterations if exact else None,
        "retries": job.retries or None,
        "gpu_model": job.where.gpu_model or None,
        "share": show_share(job.share),
        "labels": show_labels(job.where.labels),
        "pinned": show_pinned(job.where.pinned),
        "declared_s": None if job.declared_s in (None, duration_s) else job.declared_s,
    }
    return values


def _weft_cell(value: object) -> object:
    if isinstance(value, list | dict):
        return format_cell(value)
    return int(value) if isinstance(value, bool) else value


def _model(each: TraceJob) -> tuple[str, bool]:
    """Return the job's model if the profile table has it, and whether the table's profile equals the job's."""
    measured = each.job.profile
    if measured == UNMEASURED:
        return UNMEASURED.model, True
    if measured is None or measured.model not in KNOWN:
        return "", False
    return measured.model, profile(measured.model, each.job.gpus) == measured


def _weft_losses(each: TraceJob) -> Iterable[str]:
    job, (model, exact) = each.job, _model(each)
    if job.profile is not None and not exact:
        yield "stage times that differ from the profile table" if model else "a model that the profile table lacks"
    if job.params:
        yield "batch_size"


# ---- formats of other projects


def _muri(jobs: Sequence[TraceJob]) -> str:
    columns = (
        *("job_id", "num_gpu", "submit_time", "iterations", "model_name", "batch_size", "duration"),
        *("iteration_time", "resource_time_0", "resource_time_1", "resource_time_2", "priority"),
    )
    return _csv(columns, map(_muri_row, jobs))


def _muri_row(each: TraceJob) -> list[object]:
    job, measured = each.job, _profile(each)
    declared_s = each.work_s if job.declared_s is None else job.declared_s
    stages = (measured.data_s, measured.gpu_s, measured.network_s)
    return [
        *(job.id, job.gpus, _ms(each.submit_s), _iterations(each), measured.model, dict(job.params).get("batch_size")),
        *(_ms(declared_s), _shortest(measured.iteration_s / iteration_s(1.0), iteration_s, measured.iteration_s)),
        *(*map(_ms, stages), int(job.opportunistic)),
    ]


def _muri_losses(each: TraceJob) -> Iterable[str]:
    if _iterations(each) * _profile(each).iteration_s != each.work_s:
        yield "work that is not a whole number of iterations (rounded)"
    yield from _unnamed(each, ("user",))


def _philly(jobs: Sequence[TraceJob]) -> str:
    first_s = jobs[0].submit_s if jobs else 0.0
    columns = ("job_id", "timestamp", "duration", "num_gpus", "gpu_time", "cluster")
    return _csv(columns, (_philly_row(each, first_s) for each in jobs))


def _philly_row(each: TraceJob, first_s: float) -> Sequence[object]:
    job, work_s = each.job, each.work_s
    return job.id, _date(each.submit_s - first_s), work_s, job.gpus, work_s * job.gpus, job.user


def _philly_losses(each: TraceJob) -> Iterable[str]:
    yield from _drawn(each)
    yield from _unnamed(each, ())


def _elasticflow(jobs: Sequence[TraceJob]) -> str:
    rows = ((each.job.id, each.submit_s, each.work_s, each.job.gpus) for each in jobs)
    return _csv(("job_id", "submission_time", "duration", "num_gpu"), rows)


def _elasticflow_losses(each: TraceJob) -> Iterable[str]:
    yield from _drawn(each)
    yield from _unnamed(each, ("user",))


def _drawn(each: TraceJob) -> Iterable[str]:
    yield "model and opportunistic (drawn at random when it is read)"
    if each.job.iterations is not None:
        yield "iterations (the work is in seconds)"
    if each.job.params:
        yield "batch_size"


def _unnamed(each: TraceJob, more: tuple[str, ...]) -> Iterable[str]:
    job = each.job
    for field in (*more, "name", "memory_mb", "cpus", "ram_mb", "priority", "retries"):
        if getattr(job, field):
            yield field
    if job.share != WHOLE:
        yield "share"
    for field in ("gpu_model", "labels", "pinned"):
        if getattr(job.where, field):
            yield field


def _profile(each: TraceJob) -> Profile:
    assert each.job.profile is not None, f"job {each.job.id} has no profile"
    return each.job.profile


def _iterations(each: TraceJob) -> int:
    return each.job.iterations or max(1, round(each.work_s / _profile(each).iteration_s))


def _ms(value_s: float) -> object:
    return _shortest(value_s * 1000, lambda value: value / 1000, value_s)


def _shortest(value: float, read: Callable[[float], float], wanted: float) -> object:
    """Return the shortest number that is read as the wanted one; else the number itself."""
    for digits in range(_DIGITS):
        rounded = round(value, digits)
        if read(rounded) == wanted:
            return int(rounded) if rounded.is_integer() else rounded
    return value


def _date(since_s: float) -> str:
    try:
        return str(FIRST_DATE + timedelta(seconds=since_s))
    except OverflowError:
        what = f"a job is submitted {since_s:g} s after the first"
        raise InputError(what, hint="dates of the philly format end with the year 9999; use another format") from None


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return text.getvalue()


WRITERS: Final = {
    "weft": Writer(_weft_csv, _weft_losses),
    "weft-jsonl": Writer(_weft_jsonl, _weft_losses),
    "muri": Writer(_muri, _muri_losses),
    "philly": Writer(_philly, _philly_losses),
    "elasticflow": Writer(_elasticflow, _elasticflow_losses),
}
