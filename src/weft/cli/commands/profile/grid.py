"""Choose the share and the batch of a service, or the share of a training job, from a grid of measured latencies."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views.lab.growth import print_pick
from weft.cli.workload_units import latency
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft profile grid a100_roberta_large.csv --slo 60ms
  weft profile grid train.csv --training --batch 32 --json"""


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
    from weft.lab.study.growth_search import search_inference, search_training
    from weft.sim.serving.grid import read_grid

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
    print_pick(args, pick, len(grid.seconds_at), {"file": args.file})
    return 0
