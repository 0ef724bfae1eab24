"""Let suspended jobs continue; without JOB, start jobs again after `weft pause`."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft resume 7
  weft resume
  weft resume --group sweep"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, needed=False)
    parser.add_argument("--group", metavar="G", help="only jobs of this group")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    if args.jobs and args.group is not None:
        raise InputError(
            "JOB and --group are both given", hint="weft resume JOB continues suspended jobs; --group ends a pause"
        )
    if args.jobs:
        return change_report.change(args, "resume", "resumed")
    if args.group is not None:
        return _resume_group(args)
    from weft.views.answers.operations import RESUME

    return change_report.operate(args, RESUME, lambda _: "jobs start again")


def _resume_group(args: argparse.Namespace) -> int:
    from weft.views.answers.groups import RESUME_GROUP

    return change_report.operate(
        args, RESUME_GROUP, lambda _: f"jobs of group {args.group} start again", group=args.group
    )
