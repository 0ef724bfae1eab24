"""Play traces through real schedulers, agents and processes on this machine, with emulated GPUs, and compare."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_action

EXAMPLE: Final = """examples:
  weft testbed run --spec n2g8 --policies srtf,srsf --quick --out DIR
  weft testbed run --spec n8g8 --trace cluster_trace.csv --out DIR
  weft testbed report DIR"""

ACTIONS: Final = {
    "run": "run the cells of a matrix that have not finished yet, then report",
    "report": "compare finished cells with the simulator and with published figures",
}
MODULES: Final = {"run": "run_matrix"}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in ACTIONS.items():
        add_action(actions, "testbed", name, summary, module_name=MODULES.get(name, ""))


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))
