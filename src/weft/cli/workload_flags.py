"""The workload flags that `sim` and `compare` share, and the first fields of their JSON output."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Final

from weft.cli import flags, uncertainty_flags
from weft.errors import InputError
from weft.sim.traces.formats import NAMES

if TYPE_CHECKING:  # imported when a simulation starts, not when a flag is wrong
    from weft.lab.compare.workload import LoadedWorkload, Workload

DEMO: Final = "demo"
DEMO_CLUSTER: Final = "4x8"
FORMATS: Final = ("auto", *NAMES)
WHOLE: Final = flags.whole_number(0, 10**18 - 1)
"""For a seed, or a number of jobs or users."""


def add_arguments(parser: argparse.ArgumentParser, *, cluster_help: str) -> None:
    parser.add_argument(
        "trace", metavar="TRACE", nargs="?", default="",
        help="CSV or JSON lines, gzipped or not; demo: the built-in trace",
    )  # fmt: skip
    parser.add_argument("--cluster", metavar="SPEC", help=cluster_help)
    parser.add_argument("--placement", metavar="NAME", help="placement (default: the policy's)")
    parser.add_argument(
        "--model", choices=("real", "muri"), default="real", help="cost of starts and stops (default: real)"
    )
    parser.add_argument(
        "--checkpoint-interval", metavar="S", type=seconds, default=None,
        help="a preempted job loses its work since the last multiple of S (default: 600; 0: it loses nothing)",
    )  # fmt: skip
    parser.add_argument(
        "--order", choices=("fair", "fifo", "slots"),
        help="turns in a weave: least served first, first in line, lock-step (default: fair; --model muri: slots)",
    )  # fmt: skip
    parser.add_argument(
        "--contention", choices=("muri", "none"),
        help="how woven jobs slow each other down: by Muri's factors, not at all (default: muri with slots, else none)",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=WHOLE, default=0, help="seed of all random draws (0)")
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the trace (default: by its header)"
    )
    parser.add_argument("--skip-infeasible", action="store_true", help="leave out jobs that do not fit on the cluster")
    parser.add_argument(
        "--services", metavar="FILE", default="", help="YAML file of inference services that share the GPUs"
    )
    parser.add_argument("--teams", metavar="FILE", default="", help="YAML file of teams that share the GPUs")
    uncertainty_flags.add_arguments(parser)


def workload(args: argparse.Namespace) -> Workload:
    """Return the workload that the flags describe."""
    from weft.lab.compare.workload import Workload
    from weft.sim.costs.real import CHECKPOINT_INTERVAL_S

    uncertainty_flags.check(args)
    given = None
    if args.from_live:
        from weft.cli.from_live import read_workload

        given = read_workload(args)
        args.trace = given.trace.name
    if not args.trace:
        raise InputError("no trace given", hint="give a file, demo, or --from-live for the scheduler's history")
    cluster = args.cluster or (DEMO_CLUSTER if args.trace == DEMO else given.trace.name if given else "")
    if not cluster:
        raise InputError("no cluster given", hint="add --cluster NODESxGPUS, such as 8x8, or a cluster file")
    interval = args.checkpoint_interval
    return Workload(
        args.trace,
        cluster,
        placement=args.placement,
        model=args.model,
        checkpoint_interval_s=CHECKPOINT_INTERVAL_S if interval is None else interval,
        seed=args.seed,
        format=args.format,
        skip_infeasible=args.skip_infeasible or given is not None,
        uncertainty=uncertainty_flags.uncertainty(args),
        retries=uncertainty_flags.retries(args),
        load=args.load,
        order=args.order,
        contention=args.contention,
        services=args.services,
        teams=args.teams,
        given=given,
    )


def json_head(args: argparse.Namespace, loaded: LoadedWorkload) -> dict[str, object]:
    """Return the first fields of a JSON object about the workload."""
    return {"schema": 1, "trace": loaded.trace, "cluster": loaded.cluster, "gpus": loaded.gpus, "model": args.model,
            **_weave_options(args), "seed": args.seed, **uncertainty_flags.json_field(args)}  # fmt: skip


def _weave_options(args: argparse.Namespace) -> dict[str, object]:
    """Return how weaves are simulated, where the flags say so."""
    given = {"order": args.order, "contention": args.contention}
    return {name: value for name, value in given.items() if value is not None}


def seconds(text: str) -> float:
    """Parse seconds: finite, not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected seconds, a number from 0, found {text!r}")
    return value
