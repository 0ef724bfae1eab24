"""The output of a simulation (job.csv, cluster.csv, journal.jsonl, summary.json), and records read from it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from weft.errors import InputError
from weft.history.journal import open_journal
from weft.history.journal.base import Journal
from weft.history.journal.codec import seal
from weft.history.journal.jsonl import HEADER
from weft.history.metrics.figures import Record
from weft.history.metrics.history import History, read_history
from weft.history.metrics.records import JobRecord, Status, gpu_changes
from weft.inputs.csv import Row, Table, parse_table, read_table, shorten
from weft.inputs.files import read_text
from weft.model import Seconds
from weft.sim.costs.muri import makespan_since
from weft.sim.folder import SUMMARY, atomic_folder, read_summary
from weft.sim.traces.formats.draft import MAX_GPUS

JOB_COLUMNS: Final = (
    "job_id", "user", "gpus", "status", "submit_s", "first_start_s", "end_s", "jct_s", "queue_s", "runs", "preemptions",
    "gpu_seconds", "solo_s", "rho", "first_wait_s", "group", "team",
)  # fmt: skip
CLUSTER_COLUMNS: Final = ("time_s", "busy_gpus", "gpus", "pending", "running", "blocking_index")

SQLITE_HEAD: Final = b"SQLite format 3\0"

_OPTIONAL_COLUMNS: Final = {"user", "jct_s", "first_wait_s", "group", "team"}
"""Columns of job.csv that may be missing: they are derived or descriptive."""
_STATUSES: Final = get_args(Status)


def write_output(
    directory: str | Path, record: Record, journal: Journal, summary: Mapping[str, Any], *, force: bool = False,
    pictures: Mapping[str, bytes] | None = None,
) -> None:  # fmt: skip
    """Write all files, or none. `pictures`: further files by name."""
    with atomic_folder(directory, force=force) as folder:
        _write_csv(folder / "job.csv", JOB_COLUMNS, map(_format_job, record.jobs))
        _write_csv(folder / "cluster.csv", CLUSTER_COLUMNS, record.rows)
        with open(folder / "journal.jsonl", "wb") as file:
            file.write(HEADER)
            facts = enumerate(journal.read(), start=1)
            file.writelines(seal(fact, position).encode() + b"\n" for position, fact in facts)
        for name, data in (pictures or {}).items():
            (folder / name).write_bytes(data)
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def read_record(path: str | Path, *, gpus: int | None = None) -> Record:
    """Return the record of a job.csv or of a journal.

    The number of GPUs, unless given, comes from the journal, or from the cluster.csv next to the job.csv. The cost
    model comes from the summary.json next to the file.
    """
    if is_journal(path):
        record = read_journal(path).record
        return record if gpus is None else replace(record, gpus=[(float("-inf"), gpus)])
    jobs = read_job_csv(path)
    cluster_csv = Path(path).with_name("cluster.csv")
    counts = list(_read_gpus(cluster_csv)) if cluster_csv.is_file() else []
    until = counts[-1][0] if counts else None
    if gpus is not None:
        counts = [(float("-inf"), gpus)]
    return Record(jobs, gpus=gpu_changes(counts), until=until, since=makespan_since(_read_model(Path(path))))


def is_journal(path: str | Path) -> bool:
    """Return whether the file is a journal, by its first bytes."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(SQLITE_HEAD))
    except OSError:
        return False  # `read_table` then reports the error
    return head == SQLITE_HEAD or (head != b"" and HEADER.startswith(head))


def read_journal(path: str | Path) -> History:
    """Return the history of a journal in a file, whatever the name of the file."""
    path = Path(path).absolute()
    with open(path, "rb") as file:
        scheme = "sqlite" if file.read(len(SQLITE_HEAD)) == SQLITE_HEAD else "jsonl"
    with open_journal(f"{scheme}://{path}", readonly=True) as journal:
        return read_history(journal.read(), since=makespan_since(_read_model(path)))


def _read_model(job_csv: Path) -> object:
    return read_summary(job_csv.with_name(SUMMARY)).get("model")


def read_job_csv(path: str | Path) -> list[JobRecord]:
    """Return the jobs of a job.csv that `write_output` wrote."""
    table = read_table(path)
    _check_columns(table, [column for column in JOB_COLUMNS if column not in _OPTIONAL_COLUMNS], "job.csv")
    lines: dict[str, int] = {}
    jobs: list[JobRecord] = []
    for row in table.rows:
        job = _parse_job(row)
        if (first := lines.setdefault(job.id, row.line)) != row.line:
            what = f"job id {shorten(job.id)} occurs twice"
            raise InputError(what, where=row.where, hint=f"first on line {first}; expected one line per job")
        jobs.append(job)
    if not jobs:
        raise InputError("no jobs", where=table.where, hint="expected one line per job under the header, found none")
    return jobs


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _format_job(job: JobRecord) -> tuple[object, ...]:
    """Return the cells of a job: numbers in full precision, so that they read back equal; None if unknown."""
    return (
        job.id, job.user, job.gpus, job.status, job.submit, job.first_start, job.end, job.jct_s, job.queue_s, job.runs,
        job.preemptions, job.gpu_seconds, job.solo_s, job.rho, job.first_wait_s, job.group, job.team,
    )  # fmt: skip


def _parse_job(row: Row) -> JobRecord:
    name, status = row.text("job_id"), row.text("status")
    if not name:
        raise row.error("job_id", "a job id")
    if status not in _STATUSES:
        raise row.error("status", f"one of {', '.join(_STATUSES)}")
    job = JobRecord(
        id=name,
        user=row.text("user"),
        gpus=row.whole("gpus", high=MAX_GPUS),
        status=cast(Status, status),
        submit=row.number("submit_s"),
        first_start=_number_or_none(row, "first_start_s"),
        end=_number_or_none(row, "end_s"),
        runs=row.whole("runs"),
        preemptions=row.whole("preemptions"),
        queue_s=row.number("queue_s"),
        gpu_seconds=row.number("gpu_seconds"),
        solo_s=_number_or_none(row, "solo_s"),
        rho=_number_or_none(row, "rho"),
        group=row.text("group"),
        team=row.text("team"),
    )
    _check_times(row, job)
    return job


def _check_times(row: Row, job: JobRecord) -> None:
    if (job.end is not None) != (job.status in ("done", "failed", "cancelled")):
        raise row.error("end_s", f"{'no' if job.end is not None else 'an'} end of a job that is {job.status}")
    if (job.first_start is not None) != (job.runs > 0):
        raise row.error("first_start_s", f"{'a' if job.runs else 'no'} first start of a job with {job.runs} runs")
    if job.first_start is not None and job.first_start < job.submit:
        raise row.error("first_start_s", f"a time not before submit_s {job.submit}")
    if job.end is not None and job.end < (job.submit if job.first_start is None else job.first_start):
        raise row.error("end_s", "a time not before its submission and first start")


def _number_or_none(row: Row, column: str) -> float | None:
    return row.number(column) if row.text(column) else None


def _read_gpus(path: Path) -> Iterator[tuple[Seconds, int]]:
    table = parse_table(read_text(path), str(path))
    _check_columns(table, ("time_s", "gpus"), "cluster.csv")
    for row in table.rows:
        yield row.number("time_s"), row.whole("gpus", high=MAX_GPUS)


def _check_columns(table: Table, columns: Sequence[str], kind: str) -> None:
    for column in columns:
        if column not in table.columns:
            hint = f"expected {', '.join(columns)}; found {table.shown}"
            raise InputError(f"a {kind} needs a column {column!r}", where=table.where, hint=hint)
