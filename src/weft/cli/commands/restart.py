"""Submit ended jobs again, unchanged. Each gets a new id, unless --in-place keeps it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views import change_report
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft restart 7
  weft restart --failed
  weft restart --failed 3-7
  weft restart --in-place 7     continues from its last checkpoint, if it saves any"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, needed=False)
    parser.add_argument("--failed", action="store_true", help="only failed jobs; without JOB, all failed jobs")
    parser.add_argument("--in-place", action="store_true", help="keep id, checkpoints and place in an array")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    if not args.jobs and not args.failed:
        raise InputError("no jobs named", hint="name jobs, or give --failed")
    with connection.connect(args.scheduler) as client:
        jobs = args.jobs
        if jobs and args.failed:
            jobs = [job.id for job in client.jobs(jobs).jobs if job.status == "failed"]
            if not jobs:
                render.print_message("none of these jobs failed")
                return change_report.report_nothing(args)
        reply = client.change(
            "restart-in-place" if args.in_place else "restart", jobs, statuses=() if jobs else ("failed",)
        )
    return change_report.report(args, "restarted job" if args.in_place else "submitted job", reply)
