"""List groups of jobs, and limit how many jobs of a group run at once."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions_or_help, run_action

EXAMPLE: Final = """A job belongs to the group that --group names. The tasks of a workspace form a group.

examples:
  weft submit --group sweep -- python train.py
  weft group list
  weft group set sweep jobs=4
  weft pause --group sweep
  weft queue --group sweep"""

ACTIONS: Final = {
    "list": "list groups with their jobs and limits",
    "set": "limit the running jobs of a group",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions_or_help(parser, "group", ACTIONS)


run = run_action
