"""Make the teams those of a YAML file: add, change and remove what differs."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final

from weft.cli import flags
from weft.cli.commands.team.add import warn_of_guarantees
from weft.cli.views import change_report
from weft.text import plural

if TYPE_CHECKING:
    from weft.model import Team
    from weft.views.answers.teams import TeamsChangedView

EXAMPLE: Final = """example:
  weft team apply teams.yaml"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML file of all teams")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.teams.file import read_teams
    from weft.views.answers.teams import APPLY_TEAMS

    teams = {team.name: json.dumps(_values(team)) for team in read_teams(args.file)}
    return change_report.operate(args, APPLY_TEAMS, _describe, **teams)


def _values(team: Team) -> dict[str, str]:
    most = "none" if team.max_gpus is None else str(team.max_gpus)
    values = {"guarantee": str(team.guarantee), "max": most, "weight": f"{team.weight:g}"}
    return {**values, "members": ",".join(team.members)}


def _describe(found: TeamsChangedView) -> str:
    warn_of_guarantees(found)
    if not found.teams and not found.removed:
        return "all teams are as the file says"
    removed = f", {plural(len(found.removed), 'team')} removed" if found.removed else ""
    return f"{plural(len(found.teams), 'team')} added or changed{removed}"
