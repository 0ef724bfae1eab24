"""Show a pool: its settings, its allocations, and the last lines of an allocation that failed."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import pool_table
from weft.errors import UnknownName
from weft.text import escape_controls

EXAMPLE: Final = """examples:
  weft pool show a100
  weft pool show a100 --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        found = client.pools()
    pool = next((each for each in found.pools if each.name == args.pool), None)
    if pool is None:
        raise UnknownName("pool", args.pool, [each.name for each in found.pools])
    if args.json:
        render.print_json(pool)
        return 0
    for line in pool_table.lines(pool):
        print(escape_controls(line))
    if pool.allocations:
        print()
        tables.print_table(pool_table.ALLOCATIONS, [pool_table.allocation(a) for a in pool.allocations], args.color)
    return 0
