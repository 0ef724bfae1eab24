"""List the trials of a sweep with their parameters and the metrics that they reported last.

The best trial is marked with a star: the one with the smallest loss, or with the best value of the metric that --sort
or the sweep's early stopping names."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.views.job_table import COLOURS
from weft.errors import InputError
from weft.views.answers.base import plain

if TYPE_CHECKING:
    from weft.access.sweeps.results import Target
    from weft.views.answers.sweeps import SweepView, TrialView

EXAMPLE: Final = """examples:
  weft sweep results
  weft sweep results train-1 --sort loss
  weft sweep results train-1 --sort accuracy --max --csv > results.csv
  weft sweep results train-1 --out results.png"""

FORMATS: Final = (".png", ".svg")
MAX_CELL_CHARS: Final = 24


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP", nargs="?", default="", help="its name (default: your last sweep)")
    parser.add_argument("--sort", metavar="COLUMN", help="by a metric, the best first; a parameter; step, time or name")
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--min", action="store_true", help="a smaller metric is better (default)")
    goal.add_argument("--max", action="store_true", help="a larger metric is better")
    parser.add_argument("--csv", action="store_true", help="print CSV: one line for each trial")
    parser.add_argument("--out", metavar="FILE", help="also draw the metric over each parameter: .png or .svg")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.sweeps import results

    if args.csv and args.json:
        raise InputError("--csv and --json are both given", hint="give one or the other")
    if args.out and Path(args.out).suffix not in FORMATS:
        raise InputError(f"--out: {args.out!r} has no known ending", hint=f"known: {', '.join(FORMATS)}")
    sweep, trials = find_sweep(args)
    metrics = results.metric_names(trials)
    goal = "max" if args.max else "min" if args.min else ""
    target = results.choose_target(trials, sweep.early_stop, args.sort if args.sort in metrics else "", goal)
    best = results.best_trial(trials, target)
    if args.sort:
        trials = results.sort_trials(trials, args.sort, target)
    if args.out:
        _draw(args.out, sweep.sweep, trials, target, best)
    if args.json:
        shown = [plain(trial) for trial in trials]
        answer = {"sweep": sweep.sweep, "metric": target.metric or None, "goal": target.goal, "best": best or None}
        render.print_json({"schema": 1, **answer, "trials": shown})
    elif args.csv:
        _print_csv(trials)
    else:
        tables.print_table(_columns(trials), [_row(trial, trials, target, best) for trial in trials], args.color)
    return 0


def find_sweep(args: argparse.Namespace) -> tuple[SweepView, list[TrialView]]:
    """Return the sweep that a command names, or the last one, and its trials."""
    from weft.access.jobspec.trials import require_sweep

    client = connection.connect_if_running(args.scheduler, ended=True)
    if client is None:
        require_sweep(args.sweep, [])
        raise AssertionError("there is no sweep")
    with client:
        name = require_sweep(args.sweep, [sweep.sweep for sweep in client.sweeps().sweeps])
        found = client.sweeps(name)
    return found.sweeps[0], list(found.jobs)


def _columns(trials: Sequence[TrialView]) -> list[Column]:
    from weft.access.sweeps import results

    return [
        Column("JOB"), Column("NAME", max_width=MAX_CELL_CHARS), Column("ST"), Column("STEP", right=True),
        *(Column(name, right=True, max_width=MAX_CELL_CHARS) for name in results.parameter_names(trials)),
        *(Column(name, right=True) for name in results.metric_names(trials)),
    ]  # fmt: skip


def _row(trial: TrialView, trials: Sequence[TrialView], target: Target, best: str) -> list[Cell]:
    from weft.access.sweeps import results

    step = "-" if trial.step is None else f"{trial.step:,}" + (f"/{trial.total:,}" if trial.total else "")
    cells = [Cell(trial.id), Cell(trial.name), Cell(trial.state, COLOURS.get(trial.state, "")), Cell(step)]
    cells += [Cell(trial.params.get(name, "-")) for name in results.parameter_names(trials)]
    for name in results.metric_names(trials):
        value = trial.metrics.get(name)
        text = f"{value:.6g}" if value is not None else "nan" if name in trial.metrics else "-"
        cells.append(Cell(text, tables.BEST if trial.id == best and name == target.metric else ""))
    return cells


def _print_csv(trials: Sequence[TrialView]) -> None:
    from weft.access.sweeps import results

    params, metrics = results.parameter_names(trials), results.metric_names(trials)
    own = ["job", "name", "status", "step", "total", "time_s"]
    taken = {*own, *metrics}
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*own, *(f"params.{name}" if name in taken else name for name in params), *metrics])
    for trial in trials:
        values = [trial.id, trial.name, trial.status, trial.step, trial.total, trial.time_s]
        values += [trial.params.get(name) for name in params] + [trial.metrics.get(name) for name in metrics]
        writer.writerow(["" if value is None else value for value in values])


def _draw(path: str, sweep: str, trials: Sequence[TrialView], target: Target, best: str) -> None:
    from weft.access.sweeps.results import number_of
    from weft.inputs.files import write_file
    from weft.lab.report.sweep_picture import TrialPoint, draw_sweep

    points = []
    for trial in trials:
        if (value := trial.metrics.get(target.metric)) is not None:
            numbers = {name: number_of(text) for name, text in trial.params.items()}
            params = {name: trial.params[name] if number is None else number for name, number in numbers.items()}
            points.append(TrialPoint(params, value, trial.id == best, trial.status == "done"))
    if not points:
        hint = "a trial reports with weft.train.progress(step, loss=0.5)"
        raise InputError("no trial has reported a metric yet: there is nothing to draw", hint=hint)
    format = cast(Literal["png", "svg"], Path(path).suffix.lstrip("."))
    write_file(path, draw_sweep(sweep, target.metric, points, format))
    render.print_message(f"wrote {path}")
