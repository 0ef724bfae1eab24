"""Remove a pool. Nothing starts on its nodes any more; they go when their jobs have ended, with --now at once."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft pool remove a100
  weft pool remove a100 --now"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    parser.add_argument("--now", action="store_true", help="let its jobs save their work and run elsewhere")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import REMOVE_POOL

    options = {"now": "on"} if args.now else {}
    return change_report.operate(
        args, REMOVE_POOL, lambda found: f"pool {found.pool} is removed; its nodes are given back", pool=args.pool,
        **options,
    )  # fmt: skip
