"""Compute the figures of a job.csv from `weft sim --out`: the same figures that the simulation printed."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Final

from weft.cli import flags, render, tables
from weft.cli.views import figures

EXAMPLE: Final = """example:
  weft metrics results/job.csv"""


COUNTS: Final = ("jobs", "finished")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="JOB_CSV")
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=flags.whole_number(1),
        help="GPUs of the cluster, for the utilisation (default: from cluster.csv in the same folder)",
    )
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.core.metrics.figures import figures as compute
    from weft.sim.output import read_record

    values = asdict(compute(read_record(args.file, gpus=args.gpus)))
    if args.json:
        render.print_json({"schema": 1, "file": args.file, **values})
        return 0
    counts = [(key, figures.cell(key, values[key])) for key in COUNTS]
    pairs = [*counts, *figures.pairs(values)]
    tables.print_pairs(pairs, args.color, title=args.file, keys=[*COUNTS, *figures.LABELS])
    return 0
