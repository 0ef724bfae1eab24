"""Change a team. Jobs that run continue; GPUs that are guaranteed from now on are taken back as jobs ask for them."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.commands.team.add import describe
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft team set vision guarantee=24
  weft team set vision/detection max=none weight=2 members=ann,bob,cleo"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("team", metavar="NAME", help="the team")
    parser.add_argument(
        "settings", metavar="KEY=VALUE", nargs="+", help="guarantee, max (none: no limit), weight, members"
    )
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.teams import SET_TEAM

    values: dict[str, str] = {}
    for setting in args.settings:
        key, equals, value = setting.partition("=")
        if not equals or key == "team":
            raise InputError(f"{setting[:80]!r} is not KEY=VALUE", hint="such as guarantee=24, or max=none")
        values[key] = value
    return change_report.operate(args, SET_TEAM, lambda found: describe(found, "is changed"), team=args.team, **values)
