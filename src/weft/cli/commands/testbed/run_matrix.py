"""Run a matrix of clusters, traces, policies and schedule intervals with real schedulers, agents and processes.

GPUs are emulated. The trace is scaled, not the clock. The folder keeps finished cells: the same command continues after
an interrupt. Ctrl-C ends all processes that it started."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.access.endpoints.addresses import DEFAULT_PORT, Address
from weft.cli import flags, render
from weft.cli.commands.testbed.report import print_report
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.lab.testbed.clusters import Site
    from weft.lab.testbed.driver import Progress
    from weft.lab.testbed.matrix import Cell
    from weft.lab.testbed.workload import CellWorkload

EXAMPLE: Final = """examples:
  weft testbed run --spec n2g8 --policies srtf,srsf --quick --out DIR
  weft testbed run --spec n8g8 --trace cluster_trace.csv --order slots --contention muri --out DIR"""
MIN_SPEED, MAX_SPEED = 1.0, 1e6
MAX_INTERVAL_S: Final = 1e6


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--spec", metavar="C[,C]", default="n8g8", help="clusters: files, 4x8, or n1g8, n2g8, n4g8, n8g8 (n8g8)")
    add(
        "--trace",
        metavar="T[,T]",
        help="traces: files, or demo (default: one is generated, with the shape of that of Muri's testbed)",
    )
    add("--policies", metavar="P[,P]", help="policies (srtf,srsf,tiresias,themis,muri-s,muri-l)")
    add("--intervals", metavar="S[,S]", default="360",
        help="seconds of the trace between two plans (360); 0: as the policy asks")  # fmt: skip
    add(
        "--speed",
        metavar="X",
        type=_speed,
        help="seconds of the trace per second (3600; tiresias: 1800; policies that weave: 900)",
    )
    add("--jobs", metavar="N", type=flags.whole_number(1), help="only the first N jobs of each trace")
    add("--quick", action="store_true", help="the first 100 jobs, played twice as fast")
    add("--order", choices=("fair", "fifo", "slots"), default="fair", help="how members of a weave take turns (fair)")
    add("--contention", choices=("none", "muri"), default="none",
        help="muri: the stages of woven jobs take longer, by the factors that Muri measured (none)")  # fmt: skip
    add("--at-once", metavar="N", type=flags.whole_number(1, 16), default=1, help="cells to run at a time (1)")
    add("--out", metavar="DIR", required=True, help="folder for the results")
    add("--host", metavar="HOST", help="run on workers of other machines: the scheduler listens at HOST and waits for "
        "workers with the GPUs of the cluster (default: on this machine, with declared GPUs)")  # fmt: skip
    add("--port", metavar="N", type=flags.port, default=DEFAULT_PORT, help=f"port of that scheduler ({DEFAULT_PORT})")
    add("--folder", metavar="DIR", help="where jobs save with --host: a folder that all machines share")


def run(args: argparse.Namespace) -> int:
    from weft.lab.testbed.device_servers import device_options
    from weft.lab.testbed.driver import run_matrix
    from weft.lab.testbed.store import Store

    device_options()  # a mistake in them ends the command before a cell begins
    site = _site(args)
    work = _work(args)
    store = Store(Path(args.out))
    store.create()
    finished = sum(store.is_finished(cell) for cell, _ in work)
    if finished:
        render.print_message(f"{plural(finished, 'cell')} finished before")
    failed = run_matrix(store, work, at_once=args.at_once, progress=_progress(work), site=site)
    if store.results():
        print_report(args, store)
    if failed:
        render.print_message(f"{plural(len(failed), 'cell')} failed; the same command runs what is missing")
    return 1 if failed else 0


def _site(args: argparse.Namespace) -> Site:
    """Return where the cells run."""
    from weft.lab.testbed.clusters import LOOPBACK, Site

    if args.host is None:
        if args.folder is not None:
            raise InputError("--folder needs --host", hint="on one machine jobs save in a temporary folder")
        return LOOPBACK
    if args.at_once > 1:
        raise InputError("--host excludes --at-once", hint="the workers of one scheduler run one cell at a time")
    if args.folder is not None and not os.path.isdir(args.folder):
        raise InputError("no such directory", where=args.folder, hint="create it first, on a disk that all nodes share")
    told: list[int] = []

    def wait(joined: int, wanted: int) -> None:
        if told[-1:] != [joined]:
            told.append(joined)
            render.print_message(f"waiting for workers at {args.host}:{args.port}: {joined} of {wanted} GPUs")

    return Site(Address(args.host, args.port), os.path.abspath(args.folder) if args.folder else "", wait)


def _work(args: argparse.Namespace) -> list[tuple[Cell, CellWorkload]]:
    """Return the cells with their jobs. Check all of them before the first runs."""
    from weft.lab.compare.workload import check_names
    from weft.lab.testbed.matrix import GENERATED, POLICIES, list_cells
    from weft.lab.testbed.workload import load

    policies = list(POLICIES) if args.policies is None else _split("--policies", args.policies)
    check_names(policies)
    traces = [GENERATED] if args.trace is None else _split("--trace", args.trace)
    cells = list_cells(
        _split("--spec", args.spec), traces, policies, _intervals(args.intervals), speed=args.speed, jobs=args.jobs,
        quick=args.quick, order=args.order, contention=args.contention,
    )  # fmt: skip
    return [(cell, load(cell)) for cell in cells]


def _progress(work: list[tuple[Cell, CellWorkload]]) -> Progress:
    """Return an observer that prints when a cell begins and ends, and on a terminal at each tenth of its jobs."""
    from weft.lab.testbed.driver import Progress
    from weft.lab.testbed.failures import warning

    totals = {cell.name: len(workload.jobs) for cell, workload in work}
    shown: dict[str, int] = {}

    def begin(cell: Cell) -> None:
        jobs = plural(totals[cell.name], "job")
        render.print_message(f"{cell.name}: {jobs}, emulated GPUs, {cell.speed:g} times the speed of the trace")

    def advance(cell: Cell, ended: int) -> None:
        tenth = 10 * ended // totals[cell.name]
        if render.is_stderr_terminal() and tenth > shown.get(cell.name, 0):
            shown[cell.name] = tenth
            render.print_message(f"{cell.name}: {ended:,} of {plural(totals[cell.name], 'job')} ended")

    def finish(cell: Cell, result: dict[str, Any]) -> None:
        render.print_message(f"{cell.name}: finished in {result['wall_s']:,.0f} s")
        if words := warning(result["failed"]):
            render.print_message(f"warning: {cell.name}: {words}")

    def fail(cell: Cell, error: Exception) -> None:
        render.print_message(f"error: {cell.name}: {error}")

    return Progress(begin, advance, finish, fail)


def _split(flag: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise InputError(f"{flag}: {text[:80]!r} has an empty name", hint="separate names with single commas")
    return words


def _intervals(text: str) -> list[float]:
    found = []
    for word in _split("--intervals", text):
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_INTERVAL_S:
            what = f"--intervals: {word[:80]!r} is not a number of seconds"
            raise InputError(what, hint=f"give 0 to {MAX_INTERVAL_S:,.0f}, such as 360,720")
        found.append(value)
    return found


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not MIN_SPEED <= value <= MAX_SPEED:
        expected = f"expected a number from {MIN_SPEED:g} to {MAX_SPEED:,.0f}"
        raise argparse.ArgumentTypeError(f"{expected}, found {text[:80]!r}")
    return value
