"""Run a replica and a training job on one GPU, under exclusive, static and adaptive shares."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables
from weft.cli.study_output import add_out, check_out, write_study
from weft.cli.tables import Cell, Column
from weft.cli.workload_units import latency, positive
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.lab.study.sharing import Pair, PairFigures

EXAMPLE: Final = """examples:
  weft study sharing
  weft study sharing --grid a100_roberta_large.csv --grid a100_resnet152.csv --slo 120ms --training bert=0.3/0.9"""

TRAINING: Final = ("bert=0.3/0.9", "roberta=0.5/0.9", "resnet152=0.3/0.6", "llama2=0.5/0.9")
COLUMNS: Final = (
    Column("service", key="service"), Column("training", key="training"), Column("shares", key="mode"),
    Column("GPUs", key="gpus"), Column("requests/s", key="rate"), Column("late", key="violations"),
    Column("p50", key="p50_s"), Column("p95", key="p95_s"), Column("training speed", key="training_speed"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grid", metavar="FILE", action="append", help="latency of a service; repeat (default: like a large BERT)"
    )
    parser.add_argument(
        "--training", metavar="NAME=R/L", action="append", help="request and limit of a training job; repeat"
    )
    parser.add_argument("--slo", metavar="T", type=latency, default=0.12, help="from arrival to answer (120ms)")
    parser.add_argument(
        "--load", metavar="X", type=positive, default=0.5, help="rate, as a part of the capacity at the request (0.5)"
    )
    parser.add_argument("--seed", metavar="N", type=flags.whole_number(), default=1, help="seed of the arrivals (1)")
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    from weft.lab.study.sharing import share_gpus

    check_out(args)
    found = share_gpus(_pairs(args), args.load, args.seed)
    summary: dict[str, object] = {
        "schema": 1, "kind": "study", "study": "sharing", "load": args.load, "slo_s": args.slo, "seed": args.seed,
        "pairs": [asdict(each) for each in found],
    }  # fmt: skip
    if args.out is not None:
        _write(args, found, summary)
    if args.json:
        render.print_json(summary)
    else:
        _print(args, found)
    return 0


def _pairs(args: argparse.Namespace) -> list[Pair]:
    """Choose the share and batch of each service by its grid: a batch takes at most half of the SLO."""
    from weft.inputs.quantities import parse_share
    from weft.lab.study.growth_search import search_inference
    from weft.lab.study.sharing import Pair
    from weft.model import Share
    from weft.sim.serving.grid import example_grid, read_grid

    grids = [(Path(file).stem.removeprefix("a100_"), read_grid(file), file) for file in args.grid or ()]
    pairs = []
    for name, grid, where in grids or [("example", example_grid(), "the example grid")]:
        try:
            best = search_inference(grid.seconds, grid.shares, grid.batches, args.slo / 2).best
        except InputError as error:
            raise error.at(where=where) from None
        share = Share(best.share, min(1.0, 2 * best.share))
        for text in args.training or TRAINING:
            job, equals, written = text.partition("=")
            if not equals or not job:
                raise InputError(f"--training: bad value {text[:60]!r}", hint="write NAME=REQUEST/LIMIT")
            try:
                wanted = Share(*parse_share(written))
            except InputError as error:
                raise error.at(where=f"--training {job}") from None
            pairs.append(Pair(name, grid, share, args.slo, best.batch, job, wanted))
    return pairs


def _write(args: argparse.Namespace, found: Sequence[PairFigures], summary: dict[str, object]) -> None:
    from weft.lab.report.study_pictures import draw_sharing

    pictures = draw_sharing(
        [(f"{each.service} + {each.training}", each.mode, each.p95_s, each.training_speed) for each in found]
    )
    columns = tuple(asdict(found[0]))
    write_study(args, list(pictures), columns, [list(asdict(each).values()) for each in found], summary)


def _print(args: argparse.Namespace, found: Sequence[PairFigures]) -> None:
    rows = [
        [Cell(each.service, raw=each.service), Cell(each.training, raw=each.training), Cell(each.mode, raw=each.mode),
         Cell(str(each.gpus), raw=each.gpus), Cell(f"{each.rate:.1f}", raw=round(each.rate, 3)),
         Cell(f"{100 * each.violations:.2f} %", raw=round(each.violations, 6)),
         Cell(f"{1000 * each.p50_s:.0f} ms", raw=round(each.p50_s, 6)),
         Cell(f"{1000 * each.p95_s:.0f} ms", raw=round(each.p95_s, 6)),
         Cell(f"{100 * each.training_speed:.0f} %", raw=round(each.training_speed, 4))]
        for each in found
    ]  # fmt: skip
    tables.print_table(COLUMNS, rows, args.color, title="training speed: part of its speed alone")
