"""List ended jobs, the last first."""

from __future__ import annotations

import argparse
import time
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views import job_table
from weft.text import plural

EXAMPLE: Final = """examples:
  weft history --since 2d --failed --group sweep
  weft history --limit 20 --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="T", help="only jobs that ended within T: 2d, 12h, 90 (seconds)")
    parser.add_argument("--limit", metavar="N", type=flags.whole_number(1), default=0, help="at most N jobs (200)")
    parser.add_argument("-o", "--format", metavar="FIELDS", help=f"columns: {', '.join(job_table.FIELDS)}")
    parser.add_argument("--no-header", action="store_true", help="leave out the header line")
    flags.add_filters(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    names = job_table.fields_of(args.format) if args.format is not None else None
    from weft.views.answers.jobs import HistoryView

    since = 0.0 if args.since is None else time.time() - flags.since_s(args.since)
    client = connection.connect_if_running(args.scheduler, ended=True)
    if client is None:
        found = HistoryView()
    else:
        with client:
            found = client.history(limit=args.limit, since=since, **flags.filters_of(args))
    if args.json:
        render.print_json(found)
        return 0
    job_table.print_jobs(
        found.jobs, names or job_table.history_fields(found.jobs), args.color, header=not args.no_header
    )
    if found.more:
        render.print_message(f"{plural(found.more, 'older job')}; --limit and --since show them")
    return 0
