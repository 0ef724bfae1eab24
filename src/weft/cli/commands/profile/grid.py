"""Choose the share and the batch of a service, or the share of a training job, from a grid of measured latencies."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.workload_units import latency
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.study.growth_search import Pick

EXAMPLE: Final = """examples:
  weft profile grid a100_roberta_large.csv --slo 60ms
  weft profile grid train.csv --training --batch 32 --json"""

COLUMNS: Final = tuple(Column(label, right=True, key=key) for label, key in (
    ("trial", "trial"), ("batch", "batch"), ("share", "share"), ("latency", "seconds"), ("requests/s", "throughput"),
))  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="lines of batch size, share in percent, seconds")
    parser.add_argument("--slo", metavar="T", type=latency, help="latency that a batch must meet, such as 60ms")
    parser.add_argument(
        "--training", action="store_true", help="the smallest share that keeps the throughput of the whole GPU"
    )
    parser.add_argument("--batch", metavar="N", type=flags.whole_number(1), help="with --training: batch (the largest)")
    parser.add_argument(
        "--keep", metavar="P", type=flags.whole_number(1, 100), default=98, help="with --training: percent to keep (98)"
    )


def run(args: argparse.Namespace) -> int:
    from weft.sim.serving.grid import read_grid
    from weft.study.growth_search import search_inference, search_training

    if args.training == (args.slo is not None):
        raise InputError("--slo or --training is needed, not both", hint="--slo for a service, --training for a job")
    grid = read_grid(args.file)
    if args.training:
        batch = args.batch or grid.batches[-1]
        if batch not in grid.batches:
            known = ", ".join(map(str, grid.batches))
            raise InputError(f"no batch of {batch}", where=args.file, hint=f"batches of the grid: {known}")
        pick = search_training(grid.seconds, grid.shares, batch, args.keep / 100)
    else:
        try:
            pick = search_inference(grid.seconds, grid.shares, grid.batches, args.slo)
        except InputError as error:
            raise error.at(where=args.file) from None
    _print(args, pick, len(grid.seconds_at))
    return 0


def _print(args: argparse.Namespace, pick: Pick, points: int) -> None:
    best = pick.best
    if args.json:
        trials = [{"batch": each.batch, "share": each.share, "seconds": each.seconds} for each in pick.trials]
        render.print_json({
            "schema": 1, "kind": "profile", "file": args.file, "slo_s": args.slo, "share": best.share,
            "share_percent": round(100 * best.share, 6), "batch": best.batch, "seconds": best.seconds,
            "throughput": best.throughput, "trials": len(pick.trials), "points": points, "measured": trials,
        })  # fmt: skip
        return
    rows = [
        [Cell(str(at), raw=at), Cell(str(each.batch), raw=each.batch),
         Cell(f"{100 * each.share:g} %", raw=each.share), Cell(f"{1000 * each.seconds:.4g} ms", raw=each.seconds),
         Cell(f"{each.throughput:.4g}", raw=each.throughput)]
        for at, each in enumerate(pick.trials, start=1)
    ]  # fmt: skip
    tables.print_table(COLUMNS, rows, args.color)
    share = f"{100 * best.share:g} %"
    render.print_message(
        f"share {share}, batch {best.batch}: {best.throughput:.4g} requests/s; {len(rows)} of {points} points"
    )
