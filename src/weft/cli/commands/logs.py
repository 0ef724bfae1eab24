"""Print the output of a job, standard output and standard error together (see --stderr). A service is all its replicas.

For a redrawn line, such as a progress bar, only the last state is printed. On a terminal, escape codes are removed.
--raw prints every byte unchanged."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from weft.access.jobspec.job_names import looks_like_reference
from weft.cli import connection, flags, render
from weft.cli.views import log_text
from weft.errors import InputError, NotFound

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import JobView

EXAMPLE: Final = """examples:
  weft logs 7
  weft logs -f train
  weft logs -n 20 --run 1 @
  weft logs -f chat
  weft logs chat/0"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, several=False)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the output until the job ends")
    parser.add_argument(
        "-n", "--lines", metavar="N", type=flags.whole_number(1), default=0, help="only the last N lines"
    )
    parser.add_argument(
        "--run", metavar="N", type=flags.whole_number(1), default=0, help="output of this run (default: the latest)"
    )
    parser.add_argument(
        "--rank",
        metavar="N",
        type=flags.whole_number(0, 999_999),
        default=0,
        help="output of this node of a gang (default: 0)",
    )
    parser.add_argument(
        "--stderr", action="store_true", help="standard error, of a job that sends it to a separate file (--error)"
    )
    parser.add_argument("--raw", action="store_true", help="print every byte unchanged")
    flags.add_common(parser, json=False)


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        client.note = render.print_message
        try:
            return _write_job(client, args)
        except NotFound:
            if _write_service(client, args):
                return 0
            raise


def _write_job(client: Client, args: argparse.Namespace) -> int:
    may_be_array = args.job.isdecimal() or args.job.startswith("@") or not looks_like_reference(args.job)
    if may_be_array and (tasks := _tasks(client, args.job)):
        _write_tasks(client, tasks, args)
        return 0
    if args.follow and not args.run:
        pieces = client.follow(args.job, lines=args.lines, rank=args.rank, stderr=args.stderr)
    else:
        which = {"run": args.run, "lines": args.lines, "rank": args.rank}
        pieces = client.logs(args.job, follow=args.follow, stderr=args.stderr, **which)
    write(pieces, follow=args.follow, raw=args.raw)
    return 0


def _write_service(client: Client, args: argparse.Namespace) -> bool:
    """Write the output of all replicas of a service. Return False if there is no service of this name."""
    from weft.cli.views.live_services import named_services
    from weft.cli.views.replica_logs import ReplicaLogs

    found = named_services(client, [args.job])
    if found and args.follow:
        logs = ReplicaLogs(
            lambda: connection.connect(args.scheduler),
            lambda: next(iter(named_services(client, [args.job])), None),
            args.lines,
        )
        write(logs.follow(), follow=True, raw=args.raw)
    for replica in found[0].replicas if found and not args.follow else ():
        print(f"==> {args.job}/{replica.index} <==", flush=True)
        if replica.status != "waiting":
            pieces = client.logs(replica.job, run=args.run, lines=args.lines, stderr=args.stderr)
            write(pieces, follow=False, raw=args.raw)
    return bool(found)


def _tasks(client: Client, ref: str) -> Sequence[JobView]:
    """Return the tasks of an array; empty if the reference is a single job."""
    (one, *_) = client.jobs([ref], arrays=True).jobs
    return client.jobs([one.id]).jobs if one.tasks is not None else ()


def _write_tasks(client: Client, tasks: Sequence[JobView], args: argparse.Namespace) -> None:
    """Write the output of each task of an array that has run, below its id."""
    if args.follow:
        raise InputError(f"job {args.job} is an array of {len(tasks):,} tasks", hint=f"follow one: {tasks[0].id}")
    for task in tasks:
        if task.run >= max(args.run, 1):
            print(f"==> {task.id} <==", flush=True)
            pieces = client.logs(task.id, run=args.run, lines=args.lines, rank=args.rank)
            write(pieces, follow=False, raw=args.raw)


def write(pieces: Iterable[bytes], *, follow: bool, raw: bool = False) -> None:
    """Write to stdout: unchanged bytes, or text without escape codes if stdout is a terminal."""
    if not follow and not raw:
        pieces = log_text.collapse_redraws(pieces)
    out = sys.stdout
    if raw or not render.is_terminal():
        for piece in pieces:
            out.buffer.write(piece)
            out.buffer.flush()
        return
    for text in _begun(log_text.strip_escape_codes(pieces)):
        out.write(text)
        out.flush()


def _begun(texts: Iterator[str]) -> Iterator[str]:
    """End the last line, so that the prompt starts on a new line."""
    last = "\n"
    for text in texts:
        yield text
        last = text[-1:] or last
    if last != "\n":
        yield "\n"
