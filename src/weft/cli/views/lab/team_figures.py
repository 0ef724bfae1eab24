"""The table of simulated teams: their jobs, and the GPUs that they had, borrowed and missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.cli.tables import Cell, Column
from weft.cli.views.lab.services import POLICY, Tabled
from weft.text import format_duration

COLUMNS: Final = (
    Column("team", key="team"), Column("jobs", key="jobs"), Column("avg JCT", key="avg_jct_s"),
    Column("p99 JCT", key="p99_jct_s"), Column("avg queue", key="avg_queue_s"), Column("GPU hours", key="gpu_hours"),
    Column("borrowed", key="borrowed_gpu_hours"), Column("violations", key="violations"),
)  # fmt: skip
CAPTION: Final = "Teams: JCTs, GPU hours, borrowed GPU hours, jobs that did not get guaranteed GPUs"
NO_TEAM: Final = "(none)"


def tables_of(trials: Iterable[tuple[str, Mapping[str, Any]]], *, with_policy: bool) -> list[Tabled]:
    """Return the table of teams: for each policy its figures. Empty without teams."""
    rows: list[list[Cell]] = []
    for policy, values in trials:
        head = [Cell(policy, raw=policy)] if with_policy else []
        for name, found in values.get("teams", {}).items():
            cells = [_cell(column.key, found[column.key]) for column in COLUMNS[1:]]
            rows.append([*head, Cell(name or NO_TEAM, raw=name), *cells])
    return [(CAPTION, [*([POLICY] if with_policy else []), *COLUMNS], rows)] if rows else []


def _cell(key: str, value: float | None) -> Cell:
    if value is None:
        return Cell("-", raw=None)
    if key.endswith("_s"):
        return Cell(format_duration(value), raw=round(value, 1))
    return Cell(f"{value:,.1f}", raw=round(value, 2)) if isinstance(value, float) else Cell(f"{value:,}", raw=value)
