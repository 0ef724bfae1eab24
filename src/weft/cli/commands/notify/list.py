"""List the targets of messages."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.views.answers.notify import TargetView

EXAMPLE: Final = """example:
  weft notify list --json"""

COLUMNS: Final = (
    Column("TARGET", max_width=30), Column("KIND"), Column("PLACE", max_width=40), Column("DEFAULT"),
    Column("SENT", right=True), Column("WAITING", right=True), Column("DROPPED", right=True),
    Column("LAST ERROR", max_width=60),
)  # fmt: skip


configure = flags.add_scheduler


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.notify import LIST_TARGETS

    with connection.connect_or_start(args.scheduler) as client:
        found = client.operate(LIST_TARGETS)
    if args.json:
        render.print_json(found)
    elif not found.targets:
        render.print_message("no targets are configured" + (f": describe them in {found.file}" if found.file else ""))
    else:
        tables.print_table(COLUMNS, [_row(target) for target in found.targets], args.color)
    return 0


def _row(target: TargetView) -> list[Cell]:
    counts = [Cell(str(count)) for count in (target.sent, target.pending, target.dropped)]
    error = Cell(target.error or "-", "red" if target.error else "")
    default = Cell("yes" if target.default else "no")
    return [Cell(target.name), Cell(target.kind), Cell(target.place or "-"), default, *counts, error]
