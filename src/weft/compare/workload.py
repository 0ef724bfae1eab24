"""What `sim` and `compare` have in common: a trace, a cluster, and how a policy did on them."""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags, uncertainty_flags
from weft.cli.render import Meter, say
from weft.errors import Infeasible, InputError

if TYPE_CHECKING:  # imported when a simulation starts, not when a flag is wrong
    from weft.core.metrics.figures import Record
    from weft.core.ports import Placement
    from weft.model import Node
    from weft.sim.simulation import Outcome, Setting
    from weft.sim.traces.trace import Trace, TraceJob

DEMO: Final = "demo"
DEMO_CLUSTER: Final = "4x8"
FORMATS: Final = ("auto", "muri", "philly", "elasticflow", "weft")
SHOWN: Final = 10
"""How many jobs a message lists."""


@dataclass(frozen=True)
class Workload:
    """Jobs that the cluster can hold, and the ids of those left out."""

    trace: str
    cluster: str
    nodes: Sequence[Node]
    jobs: Sequence[TraceJob]
    skipped: Sequence[str]

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.nodes)

    def head(self, args: argparse.Namespace) -> dict[str, Any]:
        """The first fields of a JSON object about it."""
        return {"schema": 1, "trace": self.trace, "cluster": self.cluster, "gpus": self.gpus, "model": args.model,
                "seed": args.seed, **uncertainty_flags.head(args)}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser, *, cluster_help: str) -> None:
    parser.add_argument("trace", metavar="TRACE", help="CSV or JSON lines, gzip or not; demo: one that is built in")
    parser.add_argument("--cluster", metavar="SPEC", help=cluster_help)
    parser.add_argument("--placement", metavar="NAME", help="default: the one the policy brings along")
    parser.add_argument(
        "--model", choices=("real", "muri"), default="real", help="what starts and stops cost (default: real)"
    )
    parser.add_argument(
        "--checkpoint-interval", metavar="S", type=seconds, default=None,
        help="a preempted job loses what it did since the last multiple of this (default: 600; 0: it loses nothing)",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=WHOLE, default=0, help="draws all that is left to chance (0)")
    parser.add_argument("--format", choices=FORMATS, default="auto", help="of the trace (default: by its header)")
    parser.add_argument("--skip-infeasible", action="store_true", help="leave out jobs that the cluster cannot hold")
    uncertainty_flags.add_arguments(parser)


def load(args: argparse.Namespace, policies: Sequence[str], *, forgiving: bool = False) -> Workload:
    """Reads the trace and the cluster; jobs that can never run are an error, or left out and reported.

    If `forgiving`, a placement that breaks is not asked which can: whoever runs with it will hear of it.
    """
    from weft.sim.clusters.feasible_jobs import split_feasible
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.traces.trace import with_load

    uncertainty_flags.check(args)
    spec = args.cluster or (DEMO_CLUSTER if args.trace == DEMO else "")
    if not spec:
        raise InputError("no cluster given", hint="add --cluster NODESxGPUS, such as 8x8, or a cluster file")
    nodes = read_cluster(spec)
    trace = with_load(read(args, uncertainty_flags.retries(args)), args.load)
    jobs, infeasible = split_feasible(trace.jobs, nodes, _placements(args, policies), forgiving=forgiving)
    if infeasible and not (args.skip_infeasible and jobs):
        raise _infeasible(args, trace, jobs, infeasible, spec)
    if infeasible:
        say(f"left out {len(infeasible):,} of {len(trace.jobs):,} jobs\n{_by_reason(infeasible)}")
    _say_strangers(policies, jobs)
    return Workload(trace.name, spec, nodes, jobs, [each.job.id for each, _ in infeasible])


def _say_strangers(policies: Sequence[str], jobs: Sequence[TraceJob]) -> None:
    """Users to whom a policy gives a weight, and who submit nothing."""
    from weft.plugins import registry

    for policy in policies:
        named = getattr(registry.policy(policy), "users", {})
        unknown = sorted(set(named) - {each.job.user for each in jobs}) if named else []
        if unknown:
            say(f"{policy}: no job of the trace belongs to {_some(unknown)}")


def _placements(args: argparse.Namespace, policies: Sequence[str]) -> list[Placement]:
    """Those that the policies will use, each once."""
    from weft.plugins import registry
    from weft.sim.simulation import Setting, placement_of

    names = [placement_of(Setting((), (), policy, args.placement, args.model)) for policy in policies]
    return [registry.placement(name) for name in dict.fromkeys(names)]


def read(args: argparse.Namespace, retries: int = 0) -> Trace:
    """The trace, or the built-in one; `retries` of jobs that do not say."""
    if args.trace == DEMO:
        from weft.sim.traces.generator import demo

        return demo(retries)
    from weft.sim.traces.trace import read_trace

    return read_trace(args.trace, format=args.format, seed=args.seed, retries=retries)


def setting(args: argparse.Namespace, work: Workload, policy: str) -> Setting:
    from weft.sim.simulation import Setting

    interval = {} if args.checkpoint_interval is None else {"checkpoint_interval_s": args.checkpoint_interval}
    chance = {"seed": args.seed, "uncertainty": uncertainty_flags.uncertainty(args)}
    return Setting(work.nodes, work.jobs, policy, args.placement, args.model, **interval, **chance)


def check_names(args: argparse.Namespace, policies: Sequence[str]) -> None:
    """A wrong name or option is better found before a long trace is read."""
    from weft.plugins import registry

    for policy in policies:
        registry.policy(policy)
    if args.placement is not None:
        registry.placement(args.placement)


def measure(wanted: Setting, label: str) -> tuple[Outcome, Record, dict[str, Any]]:
    """Simulates, and says how it went: the record, and the fields of a JSON object about it."""
    from weft.core.metrics.figures import gather
    from weft.sim.costs.muri import makespan_since
    from weft.sim.simulation import simulate

    with Meter(label, len(wanted.jobs)) as meter:
        outcome = simulate(wanted, progress=meter.tick if meter.on else None)
    gc.freeze()  # the facts stay: no need to look at them again and again
    solo_s = {each.job.id: each.work_s for each in wanted.jobs}
    record = gather(outcome.journal.read(), solo_s, since=makespan_since(wanted.model))
    gc.unfreeze()
    unfinished = [job.id for job in record.jobs if job.end is None]
    if unfinished:
        say(f"{wanted.policy}: {len(unfinished):,} jobs never ended and are not in the figures: {_some(unfinished)}")
    failed = [job.id for job in record.jobs if job.status == "failed"]
    if failed:
        say(f"{wanted.policy}: {len(failed):,} jobs failed for good and are not in the JCTs: {_some(failed)}")
    return outcome, record, values(wanted, outcome, record)


def values(wanted: Setting, outcome: Outcome, record: Record) -> dict[str, Any]:
    """How a policy did, as the fields of a JSON object."""
    from weft.core.metrics.figures import figures
    from weft.sim.simulation import placement_of

    facts = len(outcome.journal)
    return {
        "policy": wanted.policy,
        "placement": placement_of(wanted),
        **asdict(figures(record)),
        "cpu_s": outcome.cpu_s,
        "facts": facts,
        "facts_per_s": facts / outcome.cpu_s if outcome.cpu_s else None,
    }


def seconds(text: str) -> float:
    """Of a flag: not negative, finite."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected seconds, a number from 0, found {text!r}")
    return value


WHOLE: Final = flags.whole(0, 10**18 - 1)
"""Of a flag: a seed, or a number of jobs or users."""


def _infeasible(
    args: argparse.Namespace, trace: Trace, jobs: Sequence[TraceJob], bad: Sequence[tuple[TraceJob, str]], spec: str
) -> Infeasible:
    from weft.sim.traces.trace import line_of

    first, reason = bad[0]
    where = args.trace if args.trace == DEMO else f"{args.trace}:{line_of(args.trace, trace, first)}"
    if not jobs:
        what = f"no job of it fits {spec}: job {first.job.id} {reason}"
        return Infeasible(what, where=where, hint="simulate a larger cluster")
    more = f"; {len(bad) - 1:,} more are like it" if len(bad) > 1 else ""
    what = f"job {first.job.id} can never run: it {reason}{more}"
    return Infeasible(what, where=where, hint=f"simulate a larger cluster than {spec}, or add --skip-infeasible")


def _by_reason(bad: Sequence[tuple[TraceJob, str]]) -> str:
    ids: dict[str, list[str]] = {}
    for each, reason in bad:
        ids.setdefault(reason, []).append(each.job.id)
    lines = [f"  each {reason}: {_some(those)}" for reason, those in ids.items()]
    return "\n".join([*lines[:SHOWN], *(["  ..."] if len(lines) > SHOWN else [])])


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else "")
