"""List the machines: used and total GPUs, CPUs and memory, and on a cluster the last heartbeat."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.views import node_table

if TYPE_CHECKING:
    from weft.wire.views.nodes import NodeView

EXAMPLE: Final = """example:
  weft nodes --json"""

STATE_COLUMNS: Final = (Column("NODE"), Column("ST"))
HEARTBEAT_COLUMNS: Final = (Column("BEAT", right=True), Column("LOAD", right=True))
USAGE_COLUMNS: Final = (
    Column("JOBS", right=True), Column("GPUS", right=True), Column("CPUS", right=True), Column("RAM MB", right=True),
)  # fmt: skip


configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    with connection.connect_to_running(args.scheduler) as client:
        found = client.nodes()
    if args.json:
        render.print_json(found)
        return 0
    nodes = node_table.sort_by_name(found.nodes)
    with_heartbeats = node_table.is_cluster(nodes)
    columns = (*STATE_COLUMNS, *(HEARTBEAT_COLUMNS if with_heartbeats else ()), *USAGE_COLUMNS)
    tables.print_table(columns, [_row(node, with_heartbeats=with_heartbeats) for node in nodes], args.color)
    return 0


def _row(node: NodeView, *, with_heartbeats: bool) -> list[Cell]:
    return [
        Cell(node.node), node_table.state_cell(node),
        *([node_table.heartbeat_cell(node), node_table.load_cell(node)] if with_heartbeats else []),
        Cell(str(node.jobs)), Cell(f"{node.busy}/{node.gpus}"),
        node_table.usage_cell(node.cpus_used, node.cpus), node_table.usage_cell(node.ram_used_mb, node.ram_mb),
    ]  # fmt: skip
