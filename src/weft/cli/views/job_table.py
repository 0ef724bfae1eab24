"""Tables of jobs: the fields, their format, and the colours of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.cli import tables
from weft.cli.tables import Cell, Column
from weft.errors import UnknownName
from weft.model.groups import group_label
from weft.text import format_clock, format_time

if TYPE_CHECKING:
    from weft.views.answers.jobs import JobView, ProgressView

COLOURS: Final = {
    "R": "green", "CG": "green", "PD": "yellow", "H": "yellow", "CD": "blue", "F": "red", "TO": "red", "OOM": "red",
    "CA": "grey", "PR": "magenta",
}  # fmt: skip


MAX_PLACE_CHARS: Final = 24


class Field(NamedTuple):
    column: Column
    show: Callable[[JobView], str]


def _plain(read: Callable[[JobView], str | int | None]) -> Callable[[JobView], str]:
    """Return a function that shows a value as it is, and a dash for an empty one."""

    def show(job: JobView) -> str:
        value = read(job)
        return "-" if value is None or value == "" else str(value)

    return show


def progress(found: ProgressView | None) -> str:
    """Format progress as a percentage, or as a step if the total is unknown."""
    if found is None or found.step is None:
        return ""
    if not found.total:
        return f"step {found.step:,}"
    return f"{min(found.step / found.total, 1):.0%}"


def eta(found: ProgressView | None) -> str:
    if found is None or found.eta_s is None:
        return ""
    from weft.text import format_duration

    return format_duration(found.eta_s)


def _where(row: JobView) -> str:
    """Return the place of a job, or in brackets why it has none."""
    reason = f"({row.reason})" if row.reason else ""
    if row.tasks is not None:
        return " ".join(filter(None, [format_tasks(row.tasks), reason]))
    return _place(row) or reason


def _place(row: JobView) -> str:
    """Return where a job runs. The place of a large gang names its nodes alone; `weft show` has their GPUs."""
    if len(row.place) <= MAX_PLACE_CHARS:
        return row.place
    from weft.model.slots import parse_slots, shorten_slots

    slots = parse_slots(row.place)
    return shorten_slots(slots) if len(slots) > 1 else row.place


def format_tasks(counts: Mapping[str, int]) -> str:
    """Return the counts of an array's tasks: 2 running, 7 waiting, 1 done."""
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def arrange_as_tree(rows: Sequence[JobView]) -> list[JobView]:
    """Return the rows with each job below the first job that it depends on, its name indented."""
    from weft.views.answers.base import replace_fields

    known = {row.id for row in rows}
    below: dict[str, list[JobView]] = {}
    for row in rows:
        parent = next(
            (name for name in map(_depended_on, row.depends_on or ()) if name in known and name != row.id), ""
        )
        below.setdefault(parent, []).append(row)
    found: list[JobView] = []
    left = [(row, 0) for row in reversed(below.get("", []))]
    while left:
        row, depth = left.pop()
        found.append(replace_fields(row, name=f"{'   ' * (depth - 1)}└─ {row.name}") if depth else row)
        left += [(child, depth + 1) for child in reversed(below.get(row.id, []))]
    return found


def _depended_on(name: str) -> str:
    """Return the job of a dependency: a task of an array is in the line of its array."""
    return name.partition("_")[0]


def _exit(row: JobView) -> str:
    return "-" if row.exit_code is None else str(row.exit_code)


def _expected(row: JobView, time: str) -> str:
    """Return a time of the forecast; a dash if there is none."""
    return format_time(getattr(row.forecast, time)) if row.forecast is not None else "-"


FIELDS: Final = {
    "id": Field(Column("JOBID", right=True), _plain(lambda row: row.id)),
    "name": Field(Column("NAME", max_width=30), _plain(lambda row: row.name)),
    "group": Field(Column("GROUP", max_width=20), _plain(lambda row: group_label(row.group))),
    "user": Field(Column("USER", max_width=12), _plain(lambda row: row.user)),
    "state": Field(Column("ST"), _plain(lambda row: row.state)),
    "status": Field(Column("STATUS"), _plain(lambda row: row.status)),
    "time": Field(Column("TIME", right=True), lambda row: format_clock(row.time_s)),
    "gpus": Field(Column("GPUS", right=True), _plain(lambda row: row.gpus)),
    "progress": Field(Column("PROGRESS", right=True), lambda row: progress(row.progress)),
    "eta": Field(Column("ETA", right=True), lambda row: eta(row.progress)),
    "where": Field(Column("NODE(REASON)"), _where),
    "node": Field(Column("NODE"), _plain(_place)),
    "reason": Field(Column("REASON"), _plain(lambda row: row.reason)),
    "priority": Field(Column("PRIORITY", right=True), _plain(lambda row: row.priority)),
    "run": Field(Column("RUN", right=True), _plain(lambda row: row.run)),
    "submitted": Field(Column("SUBMITTED"), lambda row: format_time(row.submitted)),
    "started": Field(Column("STARTED"), lambda row: format_time(row.started)),
    "ended": Field(Column("ENDED"), lambda row: format_time(row.ended)),
    "exit": Field(Column("EXIT", right=True), _exit),
    "start-p50": Field(Column("START(P50)"), lambda row: _expected(row, "start_p50")),
    "start-p90": Field(Column("START(P90)"), lambda row: _expected(row, "start_p90")),
    "end-p50": Field(Column("END(P50)"), lambda row: _expected(row, "end_p50")),
    "end-p90": Field(Column("END(P90)"), lambda row: _expected(row, "end_p90")),
}
FORECAST: Final = ("start-p50", "start-p90", "end-p50", "end-p90")
"""Fields that need a forecast."""
START: Final = ("id", "name", "user", "state", "gpus", *FORECAST)
QUEUE: Final = ("id", "name", "user", "state", "time", "gpus", "where")
HISTORY: Final = ("id", "name", "user", "state", "time", "gpus", "exit", "ended")
_COLOURED: Final = ("state", "status")


def fields_of(text: str) -> list[str]:
    """Return the fields that -o names, by name or by column label as in squeue."""
    names = [name.strip().lower() for name in text.split(",")]
    words = {field.column.label.lower(): name for name, field in FIELDS.items()}
    found = []
    for name in names:
        if name not in FIELDS and name not in words:
            raise UnknownName("field", name[:80], FIELDS)
        found.append(name if name in FIELDS else words[name])
    return found


def queue_fields(rows: Sequence[JobView]) -> list[str]:
    """Return the default fields, with progress if any job reports it, and groups if any job has one."""
    names = _with_group(QUEUE, rows)
    if any(row.progress for row in rows):
        names[-1:-1] = ["progress", "eta"]
    return names


def start_fields(rows: Sequence[JobView]) -> list[str]:
    return _with_group(START, rows)


def history_fields(rows: Sequence[JobView]) -> list[str]:
    return _with_group(HISTORY, rows)


def _with_group(names: Sequence[str], rows: Sequence[JobView]) -> list[str]:
    """Return the fields, with the group after the name if any job has one."""
    at = names.index("name") + 1
    return [*names[:at], "group", *names[at:]] if any(row.group for row in rows) else list(names)


def table(rows: Sequence[JobView], names: Sequence[str]) -> tuple[list[Column], list[list[Cell]]]:
    columns = [FIELDS[name].column for name in names]
    cells = [
        [Cell(FIELDS[name].show(row), COLOURS.get(row.state, "") if name in _COLOURED else "") for name in names]
        for row in rows
    ]
    return columns, cells


def print_jobs(rows: Sequence[JobView], names: Sequence[str], color: str, *, header: bool = True) -> None:
    tables.print_table(*table(rows, names), color, header=header)
