"""List groups of jobs, and limit how many jobs of a group run at once."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import actions

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
    parser.set_defaults(act=lambda _: _help(parser))
    below = parser.add_subparsers(metavar="COMMAND", dest="action")
    for name, summary in ACTIONS.items():
        actions.add_action(below, "group", name, summary)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _help(parser: argparse.ArgumentParser) -> int:
    print(parser.format_help(), end="")
    return 0
