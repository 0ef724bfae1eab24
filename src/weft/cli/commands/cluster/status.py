"""List the clusters that `weft cluster` started, and whether they run. `weft monitor` shows more."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column
from weft.views.answers.base import View

EXAMPLE: Final = """example:
  weft cluster status"""
COLUMNS: Final = (
    Column("SCHEDULER"), Column("SERVER"), Column("WORKERS HERE", right=True), Column("OVER SSH", right=True),
)  # fmt: skip


class ClusterView(View):
    scheduler: str
    server: str
    """runs, gone, or "not ours" if `weft cluster` did not start the scheduler."""
    workers: int
    running: int
    """The number of workers of this machine that are alive."""
    remotes: Sequence[str]


def configure(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    from weft.node.bringup.record import load_all
    from weft.node.engine.shim.process_id import is_alive

    found = [
        ClusterView(
            scheduler=each.scheduler,
            server="not ours" if each.server is None else "runs" if is_alive(each.server.who) else "gone",
            workers=len(each.workers), running=sum(is_alive(worker.who) for worker in each.workers),
            remotes=[remote.name for remote in each.remotes],
        )
        for each in load_all()
    ]  # fmt: skip
    if args.json:
        render.print_json({"schema": 1, "clusters": found})
        return 0
    cells = [
        [Cell(each.scheduler), Cell(each.server, "red" if each.server == "gone" else ""),
         Cell(f"{each.running}/{each.workers}"), Cell(str(len(each.remotes)))]
        for each in found
    ]  # fmt: skip
    tables.print_table(COLUMNS, cells, args.color)
    return 0
