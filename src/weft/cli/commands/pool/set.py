"""Change a pool. Allocations that exist stay as they are."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft pool set a100 max-nodes=32 idle=10m
  weft pool set a100 time=12h options='-p gpu -A other'"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help="as the flags of weft pool add, or options=")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import SET_POOL

    values = {}
    for setting in args.settings:
        key, equals, value = setting.partition("=")
        if not (key and equals) or key in ("pool", "check", "provider"):
            raise InputError(f"{setting[:80]!r} is not KEY=VALUE", hint="such as max-nodes=32, idle=10m or time=12h")
        values[key] = value
    return change_report.operate(
        args, SET_POOL, lambda found: f"pool {found.pool} is changed", pool=args.pool, **values
    )  # fmt: skip
