"""Traces: jobs with their submit times and true durations, which only the simulator knows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import InputError, UnknownName
from weft.inputs.csv import Row, Table, parse_table, shorten
from weft.inputs.files import read_text
from weft.inputs.jsonl import is_jsonl, parse_jsonl
from weft.model import Job
from weft.sim.traces.formats import all_formats
from weft.sim.traces.formats.draft import Draft, Format
from weft.sim.traces.profiles import MODELS, profile


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace."""

    submit_s: float
    job: Job
    work_s: float
    """True solo seconds, known only to the simulator."""


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    format: str
    jobs: tuple[TraceJob, ...]


def read_trace(path: str | Path, *, format: str = "auto", seed: int = 0, retries: int = 0) -> Trace:
    """Return the jobs in order of submission. Draw what the trace lacks (models, classes) with the seed.

    `retries`: for jobs for which the trace gives none.
    """
    table = _table(path)
    chosen = _choose(format, table)
    drafts = sorted(_drafts(chosen, table), key=lambda draft: draft.submit_s)
    if not drafts:
        raise InputError("no jobs", where=table.where, hint="expected one line per job under the header, found none")
    _number(drafts)
    origin_s = drafts[0].submit_s if chosen.from_earliest else 0.0
    draws = random.Random(seed)
    return Trace(_name(path), chosen.name, tuple(_finish(draft, origin_s, draws, retries) for draft in drafts))


def with_load(trace: Trace, load: float) -> Trace:
    """Return the same jobs with arrivals `load` times as dense. The first job keeps its submit time."""
    if load == 1 or not trace.jobs:
        return trace
    first_s = trace.jobs[0].submit_s
    moved = (replace(each, submit_s=first_s + (each.submit_s - first_s) / load) for each in trace.jobs)
    return replace(trace, jobs=tuple(moved))


def line_of(path: str | Path, trace: Trace, wanted: TraceJob) -> int:
    """Return the line of a job in its file. Read the file again, in order of submission."""
    draft = next(known for known in all_formats() if known.name == trace.format).draft
    lines = sorted(((draft(row).submit_s, row.line) for row in _table(path).rows), key=lambda pair: pair[0])
    return lines[trace.jobs.index(wanted)][1]


def _table(path: str | Path) -> Table:
    text = read_text(path)
    return parse_jsonl(text, str(path)) if is_jsonl(text) else parse_table(text, str(path))


def _choose(name: str, table: Table) -> Format:
    if name != "auto":
        by_name = {known.name: known for known in all_formats()}
        if name not in by_name:
            raise UnknownName("trace format", name, ["auto", *by_name])
        return by_name[name]
    for known in all_formats():
        if known.mark in table.columns:
            return known
    headers = "\n".join(f"    {known.name}: {','.join(known.required)}" for known in all_formats())
    hint = f"found {table.shown}; expected one of\n{headers}"
    raise InputError("unknown trace format", where=table.where, hint=hint)


def _check_columns(chosen: Format, where: Table | Row) -> None:
    """Check the columns of a header, or of a row that names its columns."""
    kind = "column" if isinstance(where, Table) else "field"
    for column in chosen.required:
        if column not in where.columns:
            found = ", ".join(map(shorten, where.columns)) if isinstance(where, Row) else where.shown
            hint = f"expected {', '.join(chosen.required)}; found {found}"
            raise InputError(f"the {chosen.name} format needs a {kind} {column!r}", where=where.where, hint=hint)
    known = (*chosen.required, *chosen.optional)
    for column in where.columns if chosen.strict else ():
        if column not in known:
            raise UnknownName(f"{kind} of the {chosen.name} format", column[:80], known, where=where.where)


def _drafts(chosen: Format, table: Table) -> Iterator[Draft]:
    lines: dict[str, int] = {}
    if table.header:
        _check_columns(chosen, table)
    for row in table.rows:
        if not table.header:
            _check_columns(chosen, row)
        draft = chosen.draft(row)
        if draft.id and (first := lines.setdefault(draft.id, row.line)) != row.line:
            what = f"job id {shorten(draft.id)} occurs twice"
            raise InputError(what, where=row.where, hint=f"first on line {first}; give each job its own id, or none")
        yield draft


def _number(drafts: list[Draft]) -> None:
    """Give each job without an id the next unused number."""
    taken = {draft.id for draft in drafts}
    free = (number for number in map(str, itertools.count()) if number not in taken)
    for draft in drafts:
        if not draft.id:
            draft.id = next(free)


def _finish(draft: Draft, origin_s: float, draws: random.Random, retries: int) -> TraceJob:
    measured = draft.profile or profile(draft.model or draws.choice(MODELS), draft.gpus)
    opportunistic = draws.random() < 0.5 if draft.opportunistic is None else draft.opportunistic
    job = Job(
        id=draft.id,
        gpus=draft.gpus,
        name=draft.name,
        user=draft.user,
        memory_mb=draft.memory_mb,
        cpus=draft.cpus,
        ram_mb=draft.ram_mb,
        share=draft.share,
        where=draft.where,
        priority=draft.priority,
        opportunistic=opportunistic,
        retries=retries if draft.retries is None else draft.retries,
        declared_s=draft.duration_s if draft.declared_s is None else draft.declared_s,
        iterations=draft.iterations,
        profile=measured,
        params=draft.params,
    )
    work_s = draft.duration_s if draft.iterations is None else draft.iterations * measured.iteration_s
    return TraceJob(draft.submit_s - origin_s, job, work_s)


def _name(path: str | Path) -> str:
    return Path(path).name.removesuffix(".gz").removesuffix(".csv").removesuffix(".jsonl")
