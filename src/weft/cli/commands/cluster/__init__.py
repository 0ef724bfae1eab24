"""Start and stop a whole cluster: on this machine with declared GPUs, or over ssh."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions, run_action

EXAMPLE: Final = """examples:
  weft cluster up --nodes 4 --gpus-per-node 8
  weft cluster ssh --hosts hosts.txt --scheduler gpu-head:50051
  weft cluster down"""

ACTIONS: Final = {
    "up": "start a scheduler and workers on this machine, with declared GPUs",
    "ssh": "start workers on the machines of a file",
    "status": "list started clusters and whether they run",
    "down": "stop a started cluster, and nothing else",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "cluster", ACTIONS)


run = run_action
