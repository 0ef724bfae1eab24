"""List teams with what they are guaranteed, hold and borrow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.views.answers.teams import TeamView

EXAMPLE: Final = """example:
  weft team list --json"""

COLUMNS: Final = (
    Column("TEAM", max_width=40), Column("GUARANTEE", right=True), Column("MAX", right=True),
    Column("WEIGHT", right=True), Column("GPUS", right=True), Column("BORROWED", right=True),
    Column("RUNNING", right=True), Column("WAITING", right=True), Column("MEMBERS", max_width=40),
)  # fmt: skip


configure = flags.add_scheduler


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.teams import TeamsView

    found = connection.ask_if_running(args.scheduler, lambda client: client.list_all(TeamsView, "teams"), TeamsView)
    if args.json:
        render.print_json(found)
    else:
        tables.print_table(COLUMNS, [_row(team) for team in found.teams], args.color)
    return 0


def _row(team: TeamView) -> list[Cell]:
    most = "-" if team.max is None else f"{team.max:,}"
    return [
        Cell(team.team), Cell(f"{team.guaranteed:,}"), Cell(most), Cell(f"{team.weight:g}"), Cell(f"{team.held:,g}"),
        Cell(f"{team.borrowed:,g}", "yellow" if team.borrowed else ""), Cell(str(team.running)),
        Cell(str(team.waiting)), Cell(",".join(team.members) or "-"),
    ]  # fmt: skip
