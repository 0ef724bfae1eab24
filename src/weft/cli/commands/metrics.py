"""Compute the figures of a scheduler's jobs, of a journal, or of a job.csv from `weft sim --out`.

JCTs, waits, makespan, utilisation and preemptions come from the same code as those of a simulation.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables
from weft.cli.views.lab import figures
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.history.metrics.figures import Record
    from weft.history.metrics.history import Selection

EXAMPLE: Final = """examples:
  weft metrics
  weft metrics --since 7d --user ada
  weft metrics results/job.csv
  weft metrics state.db --json"""


COUNTS: Final = ("jobs", "finished")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a job.csv, or a journal: state.db or journal.jsonl (the scheduler)"
    )
    add_selection(parser)
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=flags.whole_number(1),
        help="GPUs of the cluster, for the utilisation (default: as in the journal or cluster.csv)",
    )
    flags.add_common(parser)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select jobs: --since, --user, --group, --team."""
    parser.add_argument(
        "--since", metavar="T", help="only jobs submitted within T: 7d, 12h, 90 (seconds), before the end of a file"
    )
    parser.add_argument("--user", metavar="U", default="", help="only jobs of this user")
    parser.add_argument("--group", metavar="G", default="", help="only jobs of this group")
    parser.add_argument("--team", metavar="T", default="", help="only jobs of this team, or of teams below it")


def selection(args: argparse.Namespace) -> Selection:
    from weft.history.metrics.history import Selection

    return Selection(None if args.since is None else flags.since_s(args.since), args.user, args.group, args.team)


def run(args: argparse.Namespace) -> int:
    from weft.history.metrics.figures import figures as compute

    if args.file is not None and args.scheduler is not None:
        raise InputError("a file and --scheduler are both given", hint="give one or the other")
    chosen = selection(args)
    record, title, source = _read(args, chosen)
    values = asdict(compute(record))
    if args.json:
        render.print_json({"schema": 1, **source, **values})
        return 0
    print_figures(values, title, args.color)
    return 0


def print_figures(values: dict[str, float | None], title: str, color: str) -> None:
    counts = [(key, figures.cell(key, values[key])) for key in COUNTS]
    pairs = [*counts, *figures.pairs(values)]
    tables.print_pairs(pairs, color, title=title, keys=[*COUNTS, *figures.LABELS])


def _read(args: argparse.Namespace, chosen: Selection) -> tuple[Record, str, dict[str, str]]:
    """Return the record, the title of its table, and the JSON field that names its source."""
    from dataclasses import replace

    if args.file is not None:
        from weft.sim.output import read_record

        return chosen.of(read_record(args.file, gpus=args.gpus)), args.file, {"file": args.file}
    import time

    from weft.cli import live_history

    record = live_history.read(args.scheduler).record
    if args.gpus is not None:
        record = replace(record, gpus=[(float("-inf"), args.gpus)])
    name = live_history.source(args.scheduler)
    return chosen.of(record, time.time()), name, {"scheduler": name}
