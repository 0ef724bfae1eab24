"""Wait for jobs to end, and return their exit code: 0 when done, 128 plus the signal number if a signal ended it.

Of several codes, return the first that is not 0. A job cancelled before it ran gives 143."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views.change_report import describe_end

EXAMPLE: Final = """examples:
  weft wait 7 && echo done
  weft wait --any 3-7"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    parser.add_argument("--any", action="store_true", help="wait only for the first job that ends")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, only return the exit code")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.client import exit_code
    from weft.views.answers.jobs import JobsView

    with connection.connect(args.scheduler) as client:
        client.note = render.print_message
        jobs = [client.wait_for_any(args.jobs)] if args.any else client.wait_for(args.jobs)
    if args.json:
        render.print_json(JobsView(jobs=jobs))
    elif not args.quiet:
        for job in jobs:
            render.print_message(describe_end(job))
    return next((code for job in jobs if (code := exit_code(job))), 0)
