"""Looks at traces, converts them, makes them."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from weft.ui import render

EXAMPLE: Final = """examples:
  weft trace show trace.csv.gz --cluster 8x8 -o trace.png
  weft trace convert philly.csv.gz trace.jsonl.gz --to weft-jsonl
  weft trace generate --jobs 1000 --seed 7 --cluster 8x8 --load 0.9 -o trace.csv"""

ACTIONS: Final = {
    "show": "how many jobs, how large, how long, and what load",
    "convert": "from one format to another",
    "generate": "a trace that looks like Philly, or as you ask",
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in ACTIONS.items():
        module = importlib.import_module(f"weft.ui.commands.trace.{name}")
        action = actions.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            epilog=module.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(action)
        action.set_defaults(act=module.run)
        render.add_arguments(action)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))
