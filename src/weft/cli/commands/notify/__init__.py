"""List the targets of messages about jobs, and send a test message."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions_or_help, run_action

EXAMPLE: Final = """The account that runs the scheduler describes targets in ~/.config/weft/notify.yaml, mode 600:
  targets:
    team: {webhook: "https://hooks.example.org/T0/B0"}

examples:
  weft notify list
  weft notify test team
  weft submit --notify done,failed -- python train.py
  weft submit --notify failed@team --array 0-29 -- python train.py
  weft group set sweep notify=done,failed"""

ACTIONS: Final = {
    "list": "list targets, with messages that wait and the last error",
    "test": "send a test message to a target",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions_or_help(parser, "notify", ACTIONS)


run = run_action
