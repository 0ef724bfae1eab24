"""List the machines: used and total GPUs, CPUs and memory, and on a cluster the last heartbeat."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import node_table

EXAMPLE: Final = """example:
  weft nodes --json"""


configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    with connection.connect_to_running(args.scheduler) as client:
        found = client.nodes()
    if args.json:
        render.print_json(found)
        return 0
    nodes = node_table.sort_by_name(found.nodes)
    names = node_table.MEMBERS if node_table.is_cluster(nodes) else node_table.MACHINES
    tables.print_table(*node_table.table(nodes, names), args.color)
    return 0
