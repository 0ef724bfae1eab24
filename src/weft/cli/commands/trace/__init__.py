"""Looks at traces, converts them, makes them."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add

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
        add(actions, "trace", name, summary)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))
