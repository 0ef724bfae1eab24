"""Forgets jobs that have ended, with their logs and all they left in the state directory."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft clean 3-7
  weft clean --all"""

ENDED: Final = ("done", "failed", "cancelled")


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, needed=False)
    parser.add_argument("--all", action="store_true", help="every job that has ended")
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if bool(args.jobs) == args.all:
        raise InputError("which jobs?", hint="name some, or give --all, not both")
    with connection.reach(args.scheduler) as client:
        reply = client.change("forget", args.jobs, statuses=ENDED if args.all else ())
    return change_report.report(args, "forgot", reply)
