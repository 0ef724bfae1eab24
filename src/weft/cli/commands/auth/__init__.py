"""Manage access to a scheduler: certificates, join tokens, and personal tokens."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions_or_help, run_action

EXAMPLE: Final = """On the scheduler's machine: init once, then a token for each user and worker. Elsewhere: join.

examples:
  weft auth init --host gpu-head
  weft auth token --user ada
  weft auth join gpu-head:50051 weft-join.0a1b2c...
  weft auth list
  weft auth revoke 0a1b2c3d4e5f"""

ACTIONS: Final = {
    "init": "create a certificate authority and a certificate for a scheduler",
    "token": "create a join token, valid once",
    "join": "exchange a join token for a personal token",
    "list": "list the tokens of a scheduler",
    "revoke": "revoke tokens",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions_or_help(parser, "auth", ACTIONS)


run = run_action
