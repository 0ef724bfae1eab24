"""Remove a team. Its jobs stay; they count for its department, or for no team."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.commands.team.add import describe
from weft.cli.views import change_report

EXAMPLE: Final = """example:
  weft team remove vision/detection"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("team", metavar="NAME", help="the team")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.teams import REMOVE_TEAM

    return change_report.operate(args, REMOVE_TEAM, lambda found: describe(found, "is removed"), team=args.team)
