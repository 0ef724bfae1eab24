"""List your sweeps with the states of their trials, or one sweep."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.text import format_time

if TYPE_CHECKING:
    from weft.views.answers.sweeps import SweepView

EXAMPLE: Final = """examples:
  weft sweep status
  weft sweep status train-1 --json"""

STATUSES: Final = {
    "RUNNING": ("running", "starting", "stopping"), "WAITING": ("waiting", "blocked", "held"),
    "STOPPED": ("stopped",), "DONE": ("done",), "FAILED": ("failed",), "CANCELLED": ("cancelled",),
}  # fmt: skip
"""The columns, and the statuses that each of them counts."""
COLUMNS: Final = (
    Column("SWEEP", max_width=30), Column("TRIALS", right=True), *(Column(name, right=True) for name in STATUSES),
    Column("EARLY STOP"), Column("SUBMITTED"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP", nargs="?", help="one sweep (default: all of yours)")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.jobspec.trials import require_sweep
    from weft.views.answers.base import replace_fields
    from weft.views.answers.sweeps import SweepsView

    found = connection.ask_if_running(args.scheduler, lambda client: client.sweeps(), SweepsView, ended=True)
    if args.sweep:
        require_sweep(args.sweep, [sweep.sweep for sweep in found.sweeps])
        found = replace_fields(found, sweeps=[sweep for sweep in found.sweeps if sweep.sweep == args.sweep])
    if args.json:
        render.print_json(found)
    else:
        tables.print_table(COLUMNS, [_row(sweep) for sweep in found.sweeps], args.color)
    return 0


def _row(sweep: SweepView) -> list[Cell]:
    counts = [sum(sweep.statuses.get(status, 0) for status in statuses) for statuses in STATUSES.values()]
    return [
        Cell(sweep.sweep), Cell(str(sweep.count)), *(Cell(str(count) if count else "-") for count in counts),
        Cell(sweep.early_stop or "-"), Cell(format_time(sweep.submitted)),
    ]  # fmt: skip
