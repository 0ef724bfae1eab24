"""Submit a job, print its output, and return its exit code: 128 plus the signal number if a signal ended it.

Ctrl-C cancels the job; a second Ctrl-C does not wait for its end."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.submit import task_flags
from weft.cli.views.change_report import describe_end

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import JobDetailView

EXAMPLE: Final = """examples:
  weft run --gpus 1 -- python train.py
  weft run -t 10m -- make bench
  weft run --gpus 1 --pty -- bash"""

INTERRUPTED: Final = 130


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft run [flags] -- CMD ARGS..."
    task_flags.add_arguments(parser, hidden=("array",))
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the output of the job")
    parser.add_argument("--pty", action="store_true", help="give the command this terminal, such as for a shell")
    parser.add_argument("--raw", action="store_true", help="print every byte unchanged")
    flags.add_common(parser, json=False)
    parser.add_argument("command", metavar="-- CMD ARGS...", nargs=argparse.REMAINDER, help="the command to run")


def run(args: argparse.Namespace) -> int:
    from weft.access.client import exit_code
    from weft.cli.submit import submission
    from weft.cli.submit.standard_input import read_standard_input
    from weft.errors import InputError

    args.command = task_flags.strip_dashes(args.command)
    if args.array:
        raise InputError("--array: weft run runs one job", hint="submit an array with weft submit")
    prepared = submission.prepare(args)
    terminal = _terminal_type(args) if args.pty else ""
    stdin = read_standard_input() if not args.pty else b""
    with connection.connect_or_start(args.scheduler) as client:
        spec = prepared.request.jobs[0]
        spec.terminal = terminal
        if stdin:
            spec.stdin = client.put(stdin)
        (job,) = prepared.send(client)
        if not args.quiet:
            for note in (f"job {job}", *client.submit_notes):
                render.print_message(note)
        try:
            for note in submission.advise(client, [spec], [job]) if not args.quiet else ():
                render.print_message(note)
            ended = _follow(client, job, args)
        except KeyboardInterrupt:
            return _cancel(client, job)
    if not args.quiet and ended.status != "done":
        render.print_message(describe_end(ended))
    return exit_code(ended)


def _terminal_type(args: argparse.Namespace) -> str:
    """Return the type of this terminal; raise if a job cannot get it."""
    from weft.cli.submit.terminal import terminal_type
    from weft.errors import InputError

    if args.per_gpu:
        raise InputError("--pty and --per-gpu are both given", hint="one terminal serves one process")
    return terminal_type()


def _follow(client: Client, job: str, args: argparse.Namespace) -> JobDetailView:
    from weft.cli.commands.logs import write

    client.note = render.print_message
    if args.pty:
        return _attach(client, job)
    write(client.follow(job), follow=True, raw=args.raw)
    return client.wait(job)


def _attach(client: Client, job: str) -> JobDetailView:
    from weft.cli.submit.terminal import attach_runs

    attach_runs(client, job)
    return client.wait(job)


def _cancel(client: Client, job: str) -> int:
    client.change("cancel", [job])
    render.print_message(f"stopping job {job}; Ctrl-C again does not wait for it")
    try:
        render.print_message(describe_end(client.wait(job)))
    except KeyboardInterrupt:
        render.print_message(f"job {job} is still stopping: weft show {job}")
    return INTERRUPTED
