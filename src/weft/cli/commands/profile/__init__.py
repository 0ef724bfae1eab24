"""Measure how long the stages of a training step take, and list what was measured. Jobs with a profile can be woven."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import actions

EXAMPLE: Final = """examples:
  weft profile run --gpus 1 --key bert -- python train.py
  weft profile list
  weft profile show bert
  weft profile service chat --slo 60ms
  weft profile grid a100_resnet152.csv --slo 40ms
  weft submit --gpus 1 --profile-key bert -- python train.py"""

ACTIONS: Final = {
    "run": "run a job alone for a few steps, and store its stage times",
    "list": "list the stored profiles",
    "show": "show the profiles of a key",
    "service": "find the share and batch of a deployed service that meet a latency, by trials",
    "grid": "choose the share and batch of a service from measured latencies",
}
MODULES: Final = {"run": "measure"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=lambda _: _help(parser))
    below = parser.add_subparsers(metavar="COMMAND", dest="action")
    for name, summary in ACTIONS.items():
        actions.add_action(below, "profile", name, summary, module_name=MODULES.get(name, ""))


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _help(parser: argparse.ArgumentParser) -> int:
    print(parser.format_help(), end="")
    return 0
