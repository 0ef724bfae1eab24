"""Show, convert and generate traces; export the history of a scheduler as one; play one on a scheduler."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions, run_action

EXAMPLE: Final = """examples:
  weft trace show trace.csv.gz --cluster 8x8 -o trace.png
  weft trace convert philly.csv.gz trace.jsonl.gz --to weft-jsonl
  weft trace export --since 30d -o history.csv
  weft trace play trace.csv --speed 7200 --jobs 100
  weft trace generate --jobs 1000 --seed 7 --cluster 8x8 --load 0.9 -o trace.csv"""

ACTIONS: Final = {
    "show": "show counts, sizes, durations and load of a trace",
    "convert": "convert a trace to another format",
    "generate": "generate a trace like Philly, or with other distributions",
    "play": "submit a trace to a live scheduler in compressed time, with stand-ins for its programs",
    "export": "write the history of a scheduler, or of a journal, as a trace",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "trace", ACTIONS)


run = run_action
