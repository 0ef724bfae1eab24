"""Study placements and autoscalers on large workloads: GPUs in use, late requests, replica-seconds."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_action

EXAMPLE: Final = """examples:
  weft study colocation --instances 800
  weft study colocation --from instances-3200.txt.gz --placements dilu,holes --out packing"""

ACTIONS: Final = {
    "colocation": "pack training and inference on shared GPUs, and count the GPUs in use",
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in ACTIONS.items():
        add_action(actions, "study", name, summary)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))
