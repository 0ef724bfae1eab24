"""Stop running jobs, and remove waiting jobs from the queue.

A running job gets SIGTERM in all its processes, and SIGKILL when its grace time is over."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views import change_report
from weft.model.status import ACTIVE, UNFINISHED

EXAMPLE: Final = """examples:
  weft cancel 7
  weft cancel 3-7 train -y
  weft cancel --all"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs_or_all(parser, "every job that has not ended")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation if jobs are running")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    flags.check_jobs_or_all(args)
    with connection.connect(args.scheduler) as client:
        if not args.yes and render.can_prompt():
            found = client.queue().jobs if args.all else client.jobs(args.jobs).jobs
            running = [job for job in found if job.status in ACTIVE]
            if running and not change_report.confirm("cancel", running):
                render.print_message("nothing was cancelled")
                return 1
        reply = client.change("cancel", args.jobs, statuses=sorted(UNFINISHED) if args.all else ())
    return change_report.report(args, "cancelled", reply)
