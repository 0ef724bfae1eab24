"""Lists the machines: GPUs, CPUs and memory, and how much of them is taken."""

from __future__ import annotations

import argparse
from typing import Any, Final

from weft.errors import Unreachable
from weft.ui import flags, listing, render, session
from weft.ui.listing import Cell, Column
from weft.ui.monitor_view import STATES

EXAMPLE: Final = """example:
  weft nodes --json"""

COLUMNS: Final = (
    Column("NODE"), Column("ST"), Column("JOBS", right=True), Column("GPUS", right=True), Column("CPUS", right=True),
    Column("RAM MB", right=True),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    client = session.look(args.scheduler)
    if client is None:
        raise Unreachable(f"{session.absence(args.scheduler)}\n  weft up starts one")
    with client:
        found = client.query("nodes")
    if args.json:
        render.print_json(found)
    else:
        listing.print_table(COLUMNS, [_row(node) for node in found["nodes"]], args.color)
    return 0


def _row(node: dict[str, Any]) -> list[Cell]:
    word, colour = STATES[node.get("state") or ("connected" if node["alive"] else "lost")]
    closed = f" ({', '.join(node['closed'])})" if node.get("closed") else ""
    state = Cell(word + closed, "yellow" if closed else colour)
    taken = [(node["busy"], node["gpus"]), (node["cpus_used"], node["cpus"]), (node["ram_used_mb"], node["ram_mb"])]
    return [Cell(node["node"]), state, Cell(str(node["jobs"])), *(Cell(f"{used}/{there}") for used, there in taken)]
