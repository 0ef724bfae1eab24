"""Makes traces."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from weft.errors import InputError, WeftError
from weft.ui import render, workload

EXAMPLE: Final = """example:
  weft trace generate --jobs 1000 --seed 7 --cluster 8x8 --load 0.9 -o trace.csv"""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    generate = actions.add_parser(
        "generate",
        help="a trace that looks like Philly: mostly one GPU, few long jobs",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    generate.add_argument("--jobs", metavar="N", type=workload.whole, required=True)
    generate.add_argument("--seed", metavar="S", type=workload.whole, default=0, help="same seed, same trace (0)")
    generate.add_argument("--cluster", metavar="SPEC", default="8x8", help="that it is to keep busy (8x8)")
    generate.add_argument(
        "--load", metavar="X", type=workload.seconds, default=0.9, help="how busy: 1 is every GPU, always (0.9)"
    )
    generate.add_argument("-o", "--output", metavar="FILE", required=True, help="a CSV in Weft's format")
    generate.set_defaults(act=_generate)
    render.add_arguments(generate)


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _generate(args: argparse.Namespace) -> int:
    from weft.sim.cluster import read_cluster
    from weft.sim.generator import generate, write_weft_csv

    target = Path(args.output)
    if target.is_dir():
        raise InputError("is a directory", where=args.output, hint="expected a file; name one inside it")
    gpus = sum(len(node.gpus) for node in read_cluster(args.cluster))
    trace = generate(args.jobs, seed=args.seed, gpus_in_cluster=gpus, load=args.load)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        if target.exists() and not target.is_file():
            write_weft_csv(trace, target)  # a pipe or a device
        else:
            write_weft_csv(trace, partial)
            partial.replace(target)
    except OSError as error:
        raise WeftError(f"cannot write {args.output}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    if args.json:
        render.print_json({"schema": 1, "file": args.output, "jobs": len(trace.jobs), "seed": args.seed})
    else:
        render.say(f"wrote {len(trace.jobs):,} jobs to {args.output}")
    return 0
