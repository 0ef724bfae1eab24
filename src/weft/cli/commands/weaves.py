"""List the weaves: jobs that take turns on the same GPUs, with their stage times, waits and pace."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.views import stages
from weft.text import plural

if TYPE_CHECKING:
    from weft.views.answers.weaves import WeaveMemberView, WeaveView

EXAMPLE: Final = """examples:
  weft weaves
  weft weaves --json"""

COLUMNS: Final = (
    Column("WEAVE", max_width=30), Column("GPUS", max_width=30), Column("ORDER"), Column("JOB"),
    Column("NAME", max_width=20), Column("PACE", right=True), Column("TIMES"), Column("WAITS"),
)  # fmt: skip

configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.weaves import WeavesView

    found = connection.ask_if_running(args.scheduler, lambda client: client.weaves(), WeavesView)
    if args.json:
        render.print_json(found)
        return 0
    tables.print_table(COLUMNS, [row for weave in found.weaves for row in _rows(weave)], args.color)
    if not found.weaves:
        render.print_message("no jobs are woven; muri-s and muri-l weave jobs that have a profile")
    elif found.total_rate is not None:
        measured = sum(member.rate is not None for weave in found.weaves for member in weave.members)
        render.print_message(f"{plural(measured, 'job')} at {found.total_rate:.2f} times the pace of one job alone")
    return 0


def _rows(weave: WeaveView) -> Iterator[list[Cell]]:
    for at, member in enumerate(weave.members):
        first = at == 0
        yield [
            Cell(weave.weave if first else ""), Cell(weave.gpus if first else ""), Cell(weave.order if first else ""),
            Cell(member.job), Cell(member.name), _pace(member), Cell(stages.times(member.stages)),
            Cell(stages.waits(member.stages)),
        ]  # fmt: skip


def _pace(member: WeaveMemberView) -> Cell:
    return Cell("-") if member.rate is None else Cell(stages.pace(member.rate))
