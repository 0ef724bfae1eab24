"""Request no more allocations for a pool. Its nodes stay until they are idle."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """example:
  weft pool pause a100"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import PAUSE_POOL

    return change_report.operate(args, PAUSE_POOL, lambda found: f"pool {found.pool} is paused", pool=args.pool)
