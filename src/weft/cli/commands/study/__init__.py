"""Study placements and autoscalers on large workloads: GPUs in use, late requests, replica-seconds."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_action

EXAMPLE: Final = """examples:
  weft study colocation --instances 800
  weft study colocation --from instances-3200.txt.gz --placements dilu,holes --out packing
  weft study scaling --rps rps_bursty.txt --times 10
  weft study sharing --grid a100_roberta_large.csv"""

ACTIONS: Final = {
    "colocation": "pack training and inference on shared GPUs, and count the GPUs in use",
    "scaling": "serve requests under several autoscalers",
    "sharing": "run a replica and a training job on one GPU",
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in ACTIONS.items():
        add_action(actions, "study", name, summary)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))
