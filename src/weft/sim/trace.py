"""Traces: who submits what, when, and how long it truly takes (which only the simulator knows)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.errors import InputError, UnknownName
from weft.model import ANYWHERE, Job, Where
from weft.sim.formats import FORMATS, Draft, Format
from weft.sim.profiles import MODELS, profile
from weft.sim.rows import Table, read_table, shorten


@dataclass(frozen=True, slots=True)
class TraceJob:
    submit_s: float
    job: Job
    work_s: float
    """True solo seconds: known to the simulator only."""


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    format: str
    jobs: tuple[TraceJob, ...]


def read_trace(path: str | Path, *, format: str = "auto", seed: int = 0) -> Trace:
    """The jobs in order of submission; what the trace does not say (models, classes) is drawn by the seed."""
    table = read_table(path)
    chosen = _choose(format, table)
    _check_columns(chosen, table)
    drafts = sorted(_drafts(chosen, table), key=lambda draft: draft.submit_s)
    if not drafts:
        raise InputError("no jobs", where=table.where, hint="expected one line per job under the header, found none")
    _number(drafts)
    origin_s = drafts[0].submit_s if chosen.from_earliest else 0.0
    draws = random.Random(seed)
    return Trace(_name(path), chosen.name, tuple(_finish(draft, origin_s, draws) for draft in drafts))


def _choose(name: str, table: Table) -> Format:
    if name != "auto":
        by_name = {known.name: known for known in FORMATS}
        if name not in by_name:
            raise UnknownName("trace format", name, ["auto", *by_name])
        return by_name[name]
    for known in FORMATS:
        if known.mark in table.columns:
            return known
    headers = "\n".join(f"    {known.name}: {','.join(known.required)}" for known in FORMATS)
    hint = f"found {table.header}; expected one of\n{headers}"
    raise InputError("not a trace format that is known", where=table.where, hint=hint)


def _check_columns(chosen: Format, table: Table) -> None:
    for column in chosen.required:
        if column not in table.columns:
            hint = f"expected {', '.join(chosen.required)}; found {table.header}"
            raise InputError(f"the {chosen.name} format needs a column {column!r}", where=table.where, hint=hint)
    known = (*chosen.required, *chosen.optional)
    for column in table.columns if chosen.strict else ():
        if column not in known:
            raise UnknownName(f"column of the {chosen.name} format", column[:80], known, where=table.where)


def _drafts(chosen: Format, table: Table) -> Iterator[Draft]:
    lines: dict[str, int] = {}
    for row in table.rows:
        draft = chosen.draft(row)
        if draft.id and (first := lines.setdefault(draft.id, row.line)) != row.line:
            what = f"job id {shorten(draft.id)} occurs twice"
            raise InputError(what, where=row.where, hint=f"first on line {first}; give each job its own id, or none")
        yield draft


def _number(drafts: list[Draft]) -> None:
    """Give jobs without an id the next number that is nobody's id."""
    taken = {draft.id for draft in drafts}
    free = (number for number in map(str, itertools.count()) if number not in taken)
    for draft in drafts:
        if not draft.id:
            draft.id = next(free)


def _finish(draft: Draft, origin_s: float, draws: random.Random) -> TraceJob:
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
        where=Where(gpu_model=draft.gpu_model) if draft.gpu_model else ANYWHERE,
        priority=draft.priority,
        opportunistic=opportunistic,
        retries=draft.retries,
        declared_s=draft.duration_s,
        iterations=draft.iterations,
        profile=measured,
        params=draft.params,
    )
    work_s = draft.duration_s if draft.iterations is None else draft.iterations * measured.iteration_s
    return TraceJob(draft.submit_s - origin_s, job, work_s)


def _name(path: str | Path) -> str:
    return Path(path).name.removesuffix(".gz").removesuffix(".csv")
