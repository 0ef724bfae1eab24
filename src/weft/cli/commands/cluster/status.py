"""Lists the clusters that `weft cluster` has started, and whether they run. `weft monitor` tells more."""

from __future__ import annotations

import argparse
from typing import Any, Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

EXAMPLE: Final = """example:
  weft cluster status"""
COLUMNS: Final = (
    Column("SCHEDULER"), Column("SERVER"), Column("WORKERS HERE", right=True), Column("OVER SSH", right=True),
)  # fmt: skip


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing to say."""


def run(args: argparse.Namespace) -> int:
    from weft.bringup.record import load_all
    from weft.engines.process.shim.process_id import is_alive

    rows: list[dict[str, Any]] = [
        {
            "scheduler": each.scheduler,
            "server": "not ours" if each.server is None else "runs" if is_alive(each.server.who) else "gone",
            "workers": len(each.workers), "running": sum(is_alive(worker.who) for worker in each.workers),
            "remotes": [remote.name for remote in each.remotes],
        }
        for each in load_all()
    ]  # fmt: skip
    if args.json:
        render.print_json({"schema": 1, "clusters": rows})
        return 0
    cells = [
        [Cell(row["scheduler"]), Cell(row["server"], "red" if row["server"] == "gone" else ""),
         Cell(f"{row['running']}/{row['workers']}"), Cell(str(len(row["remotes"])))]
        for row in rows
    ]  # fmt: skip
    tables.print_table(COLUMNS, cells, args.color)
    return 0
