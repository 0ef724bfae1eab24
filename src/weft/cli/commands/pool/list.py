"""List the pools with their nodes and the allocations that wait."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import pool_table

EXAMPLE: Final = """example:
  weft pool list --json"""

configure = flags.add_scheduler


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        found = client.pools()
    if args.json:
        render.print_json(found)
    else:
        tables.print_table(pool_table.COLUMNS, [pool_table.row(pool) for pool in found.pools], args.color)
    return 0
