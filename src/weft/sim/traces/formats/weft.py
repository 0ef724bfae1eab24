"""Weft's trace format, described in docs/reference/trace-format.md."""

from __future__ import annotations

from typing import Final

from weft.errors import UnknownName
from weft.inputs.csv import MAX_NUMBER, Row
from weft.model import ANYWHERE, UNCOUNTED, PerRank, Where
from weft.sim.traces.formats.columns import read_labels, read_pinned, read_share
from weft.sim.traces.formats.draft import MAX_GPUS, Draft, Format
from weft.sim.traces.profiles import KNOWN, UNMEASURED

_FLAGS: Final = {"": False, "0": False, "false": False, "1": True, "true": True}


def draft(row: Row) -> Draft:
    gpus = row.whole("gpus", low=1, high=MAX_GPUS)
    model = _model(row)
    iterations = _whole(row, "iterations", low=1)
    return Draft(
        submit_s=row.number("submit_s"),
        gpus=gpus,
        duration_s=row.number("duration_s", positive=True),
        id=row.text("job_id"),
        user=row.text("user"),
        name=row.text("name"),
        model=model if model != UNMEASURED.model else "",
        profile=UNMEASURED if model == UNMEASURED.model else None,
        declared_s=row.number("declared_s", positive=True) if row.text("declared_s") else None,
        iterations=iterations if model and model != UNMEASURED.model else None,
        opportunistic=_flag(row, "opportunistic"),
        memory_mb=_memory_mb(row, gpus),
        cpus=_whole(row, "cpus") or 0,
        ram_mb=_whole(row, "ram_mb") or 0,
        priority=_whole(row, "priority", low=-MAX_NUMBER) or 0,
        retries=_whole(row, "retries"),
        share=read_share(row, "share"),
        where=_where(row, gpus),
    )


def _where(row: Row, gpus: int) -> Where:
    where = Where(row.text("gpu_model"), read_labels(row, "labels"), read_pinned(row, "pinned", gpus))
    return ANYWHERE if where == ANYWHERE else where


def _whole(row: Row, column: str, *, low: int = 0) -> int | None:
    return row.whole(column, low=low) if row.text(column) else None


def _model(row: Row) -> str:
    model = row.text("model")
    if model and model != UNMEASURED.model and model not in KNOWN:
        raise UnknownName("model", model[:80], (*KNOWN, UNMEASURED.model), where=row.where)
    return model


def _flag(row: Row, column: str) -> bool:
    flag = _FLAGS.get(row.text(column).lower())
    if flag is None:
        raise row.error(column, "0, 1, false or true")
    return flag


def _memory_mb(row: Row, gpus: int) -> PerRank:
    text = row.text("memory_mb")
    if not text:
        return UNCOUNTED
    parts = text.split("+")
    if len(parts) not in (1, gpus) or not all(part.isdecimal() and len(part) < len(str(MAX_NUMBER)) for part in parts):
        raise row.error("memory_mb", f"one whole number, or {gpus} joined with + (one per GPU)")
    return PerRank(*map(int, parts))


FORMAT: Final = Format(
    name="weft",
    mark="submit_s",
    required=("submit_s", "gpus", "duration_s"),
    optional=(
        *("job_id", "user", "name", "model", "memory_mb", "cpus", "ram_mb", "priority"),
        *("opportunistic", "iterations", "retries", "gpu_model", "share", "labels", "pinned", "declared_s"),
    ),
    draft=draft,
    strict=True,
)
