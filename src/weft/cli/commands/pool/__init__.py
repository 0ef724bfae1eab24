"""Let nodes come when jobs wait and go when they are idle, as allocations of Slurm, Ray or Kubernetes."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions_or_help, run_action

EXAMPLE: Final = """examples:
  weft pool add a100 --slurm --gpus-per-node 8 --model A100 --memory 80G --time 8h --max-nodes 16 -- -p gpu -A proj
  weft pool try a100
  weft pool list
  weft pool show a100
  weft pool set a100 max-nodes=32 idle=10m
  weft pool remove a100"""

ACTIONS: Final = {
    "add": "add a pool",
    "list": "list pools",
    "show": "show the allocations of a pool, and its last failure",
    "pause": "request no more allocations",
    "resume": "request allocations again, also after failures",
    "set": "change a pool",
    "remove": "remove a pool and give its nodes back",
    "try": "request one allocation, and show its log if it fails",
    "script": "print what an allocation runs",
}
PASSES_ON: Final = True
"""Words after -- are passed on as they are, as `passed_on`."""
MODULES: Final = {"try": "try_out"}
"""Modules of actions whose name Python reserves."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions_or_help(parser, "pool", ACTIONS, MODULES)


run = run_action
