"""Let teams own GPUs. Others may borrow what is idle, and give it back when its team asks for it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions_or_help, run_action

EXAMPLE: Final = """A job counts for the team of its user, or for the one that --team names.

examples:
  weft team add vision --guarantee 16 --max 64 --weight 2 --members ann,bob
  weft team list
  weft team set vision guarantee=24 max=none
  weft team apply teams.yaml
  weft submit --team vision -G 4 -- python train.py"""

ACTIONS: Final = {
    "add": "add a team",
    "list": "list teams with the GPUs they hold and borrow",
    "set": "change a team",
    "remove": "remove a team; its jobs stay",
    "apply": "make the teams those of a file",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions_or_help(parser, "team", ACTIONS)


run = run_action
