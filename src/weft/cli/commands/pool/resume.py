"""Request allocations for a pool again, also after failures."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """example:
  weft pool resume a100"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import RESUME_POOL

    return change_report.operate(
        args, RESUME_POOL, lambda found: f"pool {found.pool} requests allocations again", pool=args.pool
    )
