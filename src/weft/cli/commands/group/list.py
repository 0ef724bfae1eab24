"""List groups that have jobs or a limit."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.views.answers.groups import GroupView

EXAMPLE: Final = """example:
  weft group list --json"""

COLUMNS: Final = (
    Column("GROUP", max_width=30), Column("RUNNING", right=True), Column("WAITING", right=True),
    Column("LIMIT", right=True), Column("STATE"),
)  # fmt: skip


configure = flags.add_scheduler


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.groups import GroupsView

    found = connection.ask_if_running(args.scheduler, lambda client: client.groups(), GroupsView)
    if args.json:
        render.print_json(found)
    else:
        tables.print_table(COLUMNS, [_row(group) for group in found.groups], args.color)
    return 0


def _row(group: GroupView) -> list[Cell]:
    limit = "-" if group.jobs is None else str(group.jobs)
    state = Cell("paused", "yellow") if group.paused else Cell("open")
    return [Cell(group.label), Cell(str(group.running)), Cell(str(group.waiting)), Cell(limit), state]
