"""List running and waiting jobs. weft alone does the same.

This starts no scheduler, unless the last one died and left jobs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import job_table
from weft.errors import Unreachable
from weft.model.status import Reason
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import QueueView

EXAMPLE: Final = """ST: PD waiting, R running, CG stopping, H held, PR preempted and waiting again; CD done,
F failed, CA cancelled, TO out of time, OOM out of GPU memory.

examples:
  weft queue -w
  weft queue -a --limit 20 -o id,name,state,exit
  weft queue --group sweep -t PD --name 'resnet-*'
  weft queue --tree
  weft queue --start
  weft queue --json"""

WATCH_S: Final = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="also list ended jobs, the last first")
    parser.add_argument(
        "-w", "--watch", metavar="S", nargs="?", const=WATCH_S, type=flags.seconds, help="refresh every S seconds (2)"
    )
    parser.add_argument("-o", "--format", metavar="FIELDS", help=f"columns: {', '.join(job_table.FIELDS)}")
    parser.add_argument("--limit", metavar="N", type=flags.whole_number(1), default=0, help="at most N jobs (200)")
    parser.add_argument("--no-header", action="store_true", help="leave out the header line")
    parser.add_argument("-r", "--array", action="store_true", help="list each task of an array on its own line")
    parser.add_argument("--start", action="store_true", help="show when jobs are expected to start and end")
    parser.add_argument("--tree", action="store_true", help="list jobs below the jobs that they depend on")
    flags.add_filters(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    names = job_table.fields_of(args.format) if args.format is not None else None
    args.start = args.start or any(name in job_table.FORECAST for name in names or ())
    if args.watch is not None:
        return _watch(names, args)
    client = connection.connect_if_running(args.scheduler, ended=args.all)
    if client is None:
        _show(_query(None, args), names, args)
        return 0
    with client:
        _show(_query(client, args), names, args)
    return 0


def _query(client: Client | None, args: argparse.Namespace) -> QueueView:
    from weft.views.answers.base import replace_fields
    from weft.views.answers.jobs import QueueView

    if client is None:
        return QueueView()
    only = flags.filters_of(args)
    arrays = not args.array and not args.json
    found = client.queue(limit=args.limit, arrays=arrays, forecast=args.start, **only)
    if not args.all:
        return found
    ended = client.history(limit=args.limit, **only)
    gone = {job.id for job in ended.jobs}  # a job may have ended between the two queries
    jobs = [*(job for job in found.jobs if job.id not in gone), *ended.jobs]
    return replace_fields(found, jobs=jobs, more=found.more + ended.more)


def _show(found: QueueView, names: list[str] | None, args: argparse.Namespace) -> None:
    if args.json:
        render.print_json(found)
        return
    for line in _lines(found, names, args):
        print(line)
    for remark in _remarks(found, args):
        render.print_message(remark)


def _lines(found: QueueView, names: list[str] | None, args: argparse.Namespace) -> list[str]:
    rows = job_table.arrange_as_tree(found.jobs) if args.tree else found.jobs
    default = job_table.start_fields(rows) if args.start else job_table.queue_fields(rows)
    columns, cells = job_table.table(rows, names or default)
    colour, narrow = render.use_colour(args.color), render.is_terminal()
    return list(tables.format_lines(columns, cells, colour=colour, narrow=narrow, header=not args.no_header))


def _remarks(found: QueueView, args: argparse.Namespace) -> list[str]:
    """Return messages that go with the table."""
    remarks = [connection.absence_reason(args.scheduler)] if found.policy is None else []
    for why, detail in found.paused_for.items():
        what = "paused" if why == Reason.PAUSED else f"paused ({why})"
        remarks.append(f"{what}: {detail or 'no new jobs start before weft resume'}")
    if found.more:
        remarks.append(f"{plural(found.more, 'more job')}; --limit shows them")
    return remarks


def _watch(names: list[str] | None, args: argparse.Namespace) -> int:
    """Refresh until Ctrl-C, whether or not a scheduler runs."""
    client: Client | None = None
    try:
        while True:
            try:
                client = client or connection.connect_if_running(args.scheduler, ended=args.all)
                found = _query(client, args)
            except Unreachable:
                client, found = None, _query(None, args)
            if args.json:
                render.print_json(found)
            else:
                head = f"{plural(found.running, 'job')} running, {found.waiting:,} waiting"
                tables.redraw([head, *_remarks(found, args), "", *_lines(found, names, args)])
            sys.stdout.flush()
            time.sleep(args.watch)
    except KeyboardInterrupt:
        return 0
    finally:
        if client:
            client.close()
