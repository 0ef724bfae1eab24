"""Profiles as a table, and as lines about one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.cli.tables import Cell, Column
from weft.cli.views.stages import milliseconds
from weft.text import format_time, plural

if TYPE_CHECKING:
    from weft.views.answers.jobs import StageTimesView
    from weft.views.answers.profiles import ProfileView

COLUMNS: Final = (
    Column("KEY", max_width=40), Column("USER", max_width=20), Column("GPUS", right=True),
    Column("MODEL", max_width=30), Column("DATA", right=True), Column("GPU", right=True), Column("NET", right=True),
    Column("STEP", right=True), Column("START", right=True), Column("MEMORY", right=True), Column("FROM"),
    Column("MEASURED"),
)  # fmt: skip
EVERYONE: Final = "all"
STEP_COLUMNS: Final = (Column("STAGE"), Column("MEDIAN", right=True), Column("P90", right=True))
STAGES: Final = (
    ("data", "data_s"), ("gpu", "gpu_s"), ("net", "net_s"), ("wait for data", "wait_s"), ("step", "step_s"),
)  # fmt: skip


def row(profile: ProfileView) -> list[Cell]:
    return [
        Cell(profile.key), Cell(profile.user or EVERYONE), Cell(str(profile.gpus)), Cell(profile.gpu_model or "-"),
        Cell(milliseconds(profile.data_s)),
        Cell(milliseconds(profile.gpu_s)), Cell(milliseconds(profile.net_s)), Cell(milliseconds(profile.iteration_s)),
        Cell(f"{profile.start_s:.1f} s"), Cell(_memory(profile.memory_mb)), Cell(profile.source),
        Cell(format_time(profile.measured)),
    ]  # fmt: skip


def pairs(profile: ProfileView) -> list[tuple[str, str]]:
    return [
        ("key", profile.key),
        ("user", profile.user or EVERYONE),
        ("GPUs", f"{profile.gpus} {profile.gpu_model}".strip()),
        ("data", _stage(profile.data_s, profile.data_deviation, profile)),
        ("gpu", _stage(profile.gpu_s, profile.gpu_deviation, profile)),
        ("net", _stage(profile.net_s, profile.net_deviation, profile)),
        ("step", milliseconds(profile.iteration_s)),
        ("start", f"{profile.start_s:.1f} s"),
        ("memory", _memory(profile.memory_mb)),
        ("from", f"{profile.source}, {plural(profile.measurements, 'measurement')}"),
        ("measured", format_time(profile.measured)),
    ]


def _stage(seconds: float, deviation: float, profile: ProfileView) -> str:
    spread = f" ± {deviation:.0%}" if profile.measurements > 1 else ""
    return f"{milliseconds(seconds)}{spread}"


def _memory(memory_mb: int) -> str:
    return f"{memory_mb} MB" if memory_mb else "-"


def step_rows(stages: StageTimesView) -> list[list[Cell]]:
    """Return the times of the stages of a step: median and 90 % quantile."""
    found = [
        [Cell(name), Cell(milliseconds(getattr(stages, field))), Cell(milliseconds(stages.p90.get(field)))]
        for name, field in STAGES
    ]
    if stages.fetch_s is not None:
        found.append([Cell("fetch in workers"), Cell(milliseconds(stages.fetch_s)), Cell("")])
        found.append([Cell("fetch, CPU time"), Cell(milliseconds(stages.fetch_cpu_s)), Cell("")])
    return found
