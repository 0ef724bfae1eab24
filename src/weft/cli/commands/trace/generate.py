"""Generate a trace like Philly (mostly one GPU, few long jobs), or with other distributions."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import render, uncertainty_flags, workload_flags
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.sim.traces.distributions import Durations
    from weft.sim.traces.trace import Trace

EXAMPLE: Final = """examples:
  weft trace generate --jobs 1000 --seed 7 --cluster 8x8 --load 0.9 -o trace.csv
  weft trace generate --jobs 500 --arrivals daily --gpus-mix 1=.7,4=.2,8=.1 --durations exponential:1800 -o day.jsonl"""

CLUSTER: Final = "8x8"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", metavar="N", type=workload_flags.WHOLE, required=True, help="number of jobs")
    parser.add_argument("--seed", metavar="S", type=workload_flags.WHOLE, default=0, help="same seed, same trace (0)")
    parser.add_argument(
        "--cluster", metavar="SPEC", default=CLUSTER, help=f"the cluster that --load refers to ({CLUSTER})"
    )
    parser.add_argument(
        "--load",
        metavar="X",
        type=uncertainty_flags.load,
        default=0.9,
        help="offered load: 1 keeps every GPU busy (0.9)",
    )
    parser.add_argument(
        "--arrivals", metavar="A", default="poisson", help="poisson, gamma:CV, daily or burst (default: poisson)"
    )
    parser.add_argument("--gpus-mix", metavar="N=W,...", help="weights of GPU counts, such as 1=.9,8=.1")
    parser.add_argument(
        "--median", metavar="S", type=workload_flags.seconds, help="median of log-normal durations (1144)"
    )
    parser.add_argument("--mean", metavar="S", type=workload_flags.seconds, help="mean of log-normal durations (13136)")
    parser.add_argument(
        "--durations", metavar="D", help="instead of both: lognormal:MEDIAN:MEAN, exponential:MEAN or fixed:SECONDS"
    )
    parser.add_argument("--models", metavar="M=W,...", help="weights of models, such as bert=.5,gpt2=.5")
    parser.add_argument("--users", metavar="N", type=workload_flags.WHOLE, default=5, help="number of users (5)")
    parser.add_argument(
        "--memory-mb", metavar="MB=W,...", help="weights of the memory per GPU, such as 8000=.5,16000=.5"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the file to write, in Weft's format: JSONL for .jsonl, gzip for .gz",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from weft.inputs.files import check_target, write_file
    from weft.sim.traces.writers import to_bytes

    check_target(args.output, force=args.force)
    trace = _generate(args)
    name = args.output.removesuffix(".gz")
    data = to_bytes(trace, "weft-jsonl" if name.endswith(".jsonl") else "weft", zipped=name != args.output)
    write_file(args.output, data)
    if args.json:
        render.print_json({"schema": 1, "file": args.output, "jobs": len(trace.jobs), "seed": args.seed})
    else:
        render.print_message(f"wrote {len(trace.jobs):,} jobs to {args.output}")
    return 0


def _generate(args: argparse.Namespace) -> Trace:
    from weft.inputs.csv import MAX_NUMBER
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.traces.distributions import arrivals, mix, whole_mix
    from weft.sim.traces.formats.draft import MAX_GPUS
    from weft.sim.traces.generator import PHILLY_MIX, Kinds, generate, named_users

    gpus = sum(len(node.gpus) for node in read_cluster(args.cluster))
    sizes = whole_mix(args.gpus_mix, "--gpus-mix", low=1, high=MAX_GPUS) if args.gpus_mix is not None else PHILLY_MIX
    memory = whole_mix(args.memory_mb, "--memory-mb", low=0, high=MAX_NUMBER) if args.memory_mb is not None else None
    kinds = Kinds(
        users=named_users(args.users),
        models=mix(args.models, "--models") if args.models is not None else None,
        memory_mb=memory,
    )
    if args.gpus_mix is not None and (large := [size for size in sizes if size > gpus]):
        what = f"--gpus-mix has jobs of {max(large):,} GPUs, and {args.cluster} has {gpus:,}"
        raise InputError(what, hint="leave them out, or give a larger --cluster")
    return generate(
        args.jobs, seed=args.seed, gpus_in_cluster=gpus, load=args.load, mix=sizes, kinds=kinds,
        durations=_durations(args), arrivals=arrivals(args.arrivals),
    )  # fmt: skip


def _durations(args: argparse.Namespace) -> Durations:
    from weft.sim.traces.distributions import durations, lognormal
    from weft.sim.traces.generator import PHILLY_MEAN_S, PHILLY_MEDIAN_S

    if args.durations is None:
        median_s = PHILLY_MEDIAN_S if args.median is None else args.median
        return lognormal(median_s, PHILLY_MEAN_S if args.mean is None else args.mean)
    if args.median is not None or args.mean is not None:
        raise InputError("--durations excludes --median and --mean", hint="give one or the other")
    return durations(args.durations)
