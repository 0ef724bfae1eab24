"""Prepare, check, clean and reset machines that run jobs."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions, run_action

EXAMPLE: Final = """examples:
  weft node check
  weft node prepare --dry-run
  weft node clean
  weft node reset --gpu 3"""

ACTIONS: Final = {
    "prepare": "turn on what jobs need: persistence mode, DCGM, on request the MPS daemon",
    "check": "check the driver, the GPUs, disk, limits and clock, and the network between nodes",
    "clean": "kill processes that ended jobs left behind, remove stale sockets",
    "reset": "end the MPS daemon and reset GPUs of a drained node",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "node", ACTIONS)


run = run_action
