"""Submit a trace to a live scheduler in compressed time, with stand-ins for the programs, and print the figures.

A stand-in takes the time of its job, saves when it is asked to stop, and resumes. Ctrl-C cancels what is left.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, live_history, render, workload_flags
from weft.cli.commands import metrics
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.access.client.trace_player import TracePlayer
    from weft.sim.traces.trace import Trace, TraceJob

EXAMPLE: Final = """examples:
  weft trace play demo --speed 600 --jobs 20
  weft trace play trace.csv --speed 7200 --scheduler localhost:50051 --json"""

MIN_SPEED, MAX_SPEED = 0.001, 1e9
LATE_S: Final = 1.0
"""A submission that is later than this is worth a warning."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="CSV or JSONL, gzipped or not; demo: the built-in trace")
    parser.add_argument(
        "--speed",
        metavar="X",
        type=_speed,
        required=True,
        help="seconds of the trace per second: 7200 plays 2 h in 1 s",
    )
    parser.add_argument("--jobs", metavar="N", type=flags.whole_number(1), help="only the first N jobs")
    parser.add_argument(
        "--skip-infeasible", action="store_true", help="leave out jobs that need more GPUs than there are"
    )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        help="where stand-ins save: a folder that all nodes share (default: one of this machine)",
    )
    parser.add_argument(
        "--format", choices=workload_flags.FORMATS, default="auto", help="format of the trace (by its header)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=workload_flags.WHOLE, default=0, help="seed for values missing from the trace (0)"
    )
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    from weft.lab.compare.workload import open_trace

    if args.folder is not None and not os.path.isdir(args.folder):
        raise InputError("no such directory", where=args.folder, hint="create it first, on a disk that all nodes share")
    folder = None if args.folder is None else os.path.abspath(args.folder)
    trace = open_trace(args.trace, format=args.format, seed=args.seed)
    with (
        connection.connect_or_start(args.scheduler) as client,
        TemporaryDirectory(prefix="weft-play-", dir=folder, ignore_cleanup_errors=True) as saves,
    ):
        jobs, skipped = _feasible(args, trace, client)
        player = _player(client, jobs, args.speed, saves)
        _play(player, trace.name, len(jobs))
    return _report(args, trace, player, skipped)


def _feasible(args: argparse.Namespace, trace: Trace, client: Client) -> tuple[Sequence[TraceJob], list[str]]:
    """Return the jobs to play, and the ids of those left out."""
    from weft.access.client.trace_player import check_fits

    jobs: Sequence[TraceJob] = trace.jobs[: args.jobs]
    gpus = len(client.gpus().gpus)
    fitting = [each for each in jobs if each.job.gpus <= gpus]
    if not (args.skip_infeasible and fitting):
        check_fits(jobs, gpus)
    skipped = [each.job.id for each in jobs if each.job.gpus > gpus]
    if skipped:
        render.print_message(f"left out {len(skipped):,} of {plural(len(jobs), 'job')}: more than {gpus} GPUs")
    return fitting, skipped


def _player(client: Client, jobs: Sequence[TraceJob], speed: float, folder: str) -> TracePlayer:
    from weft.access.client.trace_player import TracePlayer

    return TracePlayer(client, jobs, speed, group=f"play-{os.urandom(4).hex()}", folder=folder)


def _play(player: TracePlayer, name: str, jobs: int) -> None:
    """Play to the end. Leave no job behind if that fails or is interrupted."""
    try:
        with render.ProgressMeter(name, jobs) as meter:
            player.play(meter.draw if meter.on else _ignore)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            render.print_message(f"interrupted: cancelling {plural(player.submitted - player.ended, 'job')}")
        player.cancel()
        raise
    if player.late_s > LATE_S:
        render.print_message(f"submissions were up to {player.late_s:.1f} s late; a lower --speed plays more exactly")


def _report(args: argparse.Namespace, trace: Trace, player: TracePlayer, skipped: Sequence[str]) -> int:
    from dataclasses import asdict

    from weft.history.metrics.figures import figures
    from weft.history.metrics.history import Selection, in_trace_time

    record = Selection(group=player.group).of(live_history.read(args.scheduler).record)
    values: dict[str, Any] = asdict(figures(in_trace_time(record, args.speed)))
    scheduler = live_history.source(args.scheduler)
    if args.json:
        head = {"schema": 1, "trace": trace.name, "scheduler": scheduler, "speed": args.speed, "group": player.group}
        render.print_json({**head, **values, "late_s": player.late_s, "skipped": list(skipped)})
    else:
        metrics.print_figures(values, f"{trace.name} at {args.speed:g} times its speed, on {scheduler}", args.color)
    if values["failed"]:
        render.print_message(
            f"{plural(values['failed'], 'job')} failed; weft history --group {player.group} lists them"
        )
    return 1 if values["failed"] or values["unfinished"] else 0


def _ignore(_: int) -> None:
    """Draw nothing."""


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not MIN_SPEED <= value <= MAX_SPEED:
        raise argparse.ArgumentTypeError(f"expected a number from {MIN_SPEED} to {MAX_SPEED:,.0f}, found {text[:80]!r}")
    return value
