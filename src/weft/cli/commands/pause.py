"""Start no new jobs until `weft resume`. Running jobs continue."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft pause
  weft pause --group sweep"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="G", help="only jobs of this group")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    if args.group is not None:
        return _pause_group(args)
    from weft.views.answers.operations import PAUSE

    return change_report.operate(args, PAUSE, lambda _: "no new jobs start before weft resume; running jobs continue")


def _pause_group(args: argparse.Namespace) -> int:
    from weft.views.answers.groups import PAUSE_GROUP

    done = f"no new jobs of group {args.group} start before weft resume --group {args.group}; running jobs continue"
    return change_report.operate(args, PAUSE_GROUP, lambda _: done, group=args.group)
