"""Add a team. `department/team` adds a team of a department."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render
from weft.cli.views import change_report

if TYPE_CHECKING:
    from weft.views.answers.teams import TeamsChangedView

EXAMPLE: Final = """examples:
  weft team add speech --guarantee 16 --members cleo
  weft team add vision/detection --guarantee 8 --max 24 --weight 2 --members ann,bob"""

VALUES: Final = {
    "guarantee": ("N", "GPUs that its jobs get when they ask for them (0)"),
    "max": ("N", "the most GPUs that its jobs hold, borrowed ones included (no limit)"),
    "weight": ("W", "its part of the GPUs that teams borrow, next to the weights of others (1)"),
    "members": ("A,B", "users whose jobs belong to it unless they name another team"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("team", metavar="NAME", help="its name, such as vision, or vision/detection")
    for name, (metavar, text) in VALUES.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.teams import ADD_TEAM

    given = {name: getattr(args, name) for name in VALUES if getattr(args, name) is not None}
    return change_report.operate(args, ADD_TEAM, lambda found: describe(found, "is added"), team=args.team, **given)


def describe(found: TeamsChangedView, done: str) -> str:
    """Return a message about changed teams; warn if not all guarantees can hold."""
    warn_of_guarantees(found)
    return f"team {', '.join((*found.teams, *found.removed))} {done}"


def warn_of_guarantees(found: TeamsChangedView) -> None:
    if found.guaranteed > found.gpus:
        have = f"the nodes have {found.gpus:,}"
        render.print_message(f"{found.guaranteed:,} GPUs are guaranteed in all, and {have}: not all can be given")
