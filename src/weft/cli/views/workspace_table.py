"""Tables of a workspace: its GPUs and tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from weft.cli.tables import Cell, Column
from weft.cli.views import job_table
from weft.text import format_clock, format_duration

if TYPE_CHECKING:
    from weft.workspace.status import TaskView, WorkspaceGpuView, WorkspaceView

COLOURS: Final = {
    "waiting": "yellow", "held": "yellow", "running": "green", "done": "blue", "failed": "red", "cancelled": "grey",
}  # fmt: skip
ORDER: Final = ("running", "waiting", "held", "failed", "cancelled", "done", "new")
GPUS: Final = (Column("GPU", right=True), Column("JOBS", right=True), Column("MEMORY", right=True), Column("NOTE"))
TASKS: Final = (
    Column("TASK", max_width=40), Column("STATE"), Column("GPU", right=True), Column("TIME", right=True),
    Column("RETRIES", right=True), Column("ETA", right=True), Column("JOB", right=True), Column("LOG"), Column("NOTE"),
)  # fmt: skip


def headline(found: WorkspaceView) -> str:
    counts = found.counts
    words = [f"{counts[state]:,} {state}" for state in ("waiting", "running", "done", "failed")]
    words += [f"{counts[state]:,} {state}" for state in ("cancelled", "new") if counts[state]]
    stopped = "; stopped, start continues" if found.stopped else ""
    return f"{found.task_name}: {', '.join(words)}{stopped}"


def gpus(found: WorkspaceView) -> tuple[tuple[Column, ...], list[list[Cell]]]:
    return GPUS, [
        [
            Cell(str(gpu.gpu)),
            Cell(f"{gpu.jobs}/{gpu.limit}", "green" if gpu.jobs else ""),
            Cell(_memory(gpu)),
            Cell(", ".join(gpu.blocked), "red"),
        ]
        for gpu in found.gpus
    ]


def _memory(gpu: WorkspaceGpuView) -> str:
    if gpu.used_mb is not None:
        return f"{gpu.used_mb:,}/{gpu.memory_mb:,} MB used"
    return f"{gpu.reserved_mb:,}/{gpu.memory_mb:,} MB reserved"


def tasks(found: WorkspaceView, *, log: bool = True) -> tuple[tuple[Column, ...], list[list[Cell]]]:
    """Return a line per task, running tasks first, and each group in the order of the configs."""
    rows = sorted(found.tasks, key=lambda task: ORDER.index(task.state))
    columns = TASKS if log else tuple(column for column in TASKS if column.label != "LOG")
    return columns, [_row(task, log=log) for task in rows]


def _row(task: TaskView, *, log: bool) -> list[Cell]:
    eta = "-" if task.eta_s is None else format_duration(task.eta_s)
    return [
        Cell(task.name),
        Cell(task.state, COLOURS.get(task.state, "")),
        Cell("-" if task.gpu is None else str(task.gpu)),
        Cell("-" if task.time_s is None else format_clock(task.time_s)),
        Cell(f"{task.retries}/{task.max_retries}" if task.max_retries else "-"),
        Cell(eta),
        Cell(task.job or "-"),
        *([Cell(_relative_path(task.log))] if log else []),
        Cell(_note(task), "red" if task.warning else ""),
    ]


def _relative_path(path: str | None) -> str:
    """Return a path relative to the current directory if it is below that."""
    if path is None:
        return "-"
    try:
        relative = os.path.relpath(path)
    except OSError:  # the current directory is gone
        return path
    return path if relative.startswith("..") else relative


def _note(task: TaskView) -> str:
    if task.warning:
        return task.warning
    if task.state == "running" and task.progress:
        return job_table.progress(task.progress)
    if task.state == "failed":
        code = task.exit_code
        return f"exit code {code}" if code is not None else task.reason
    if task.state != "waiting":
        return ""
    words = ["preempted"] if task.preemptions and task.run else []
    return " ".join([*words, *([f"({task.reason})"] if task.reason else [])])
