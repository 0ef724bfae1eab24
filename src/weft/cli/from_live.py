"""The scheduler's history as a workload, and simulations from its present state: `--from-live`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from weft.cli import flags, live_history, render, tables
from weft.cli.tables import Cell
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.lab.compare.workload import ReadWorkload
    from weft.model import Fact, Node

LIVE: Final = "live"
"""The name of the workload."""
UNUSABLE: Final = ("trace", "cluster", "services", "explain", "watch", "at")
"""Flags of `weft sim` that describe another start than the present state."""


def read_workload(args: argparse.Namespace) -> ReadWorkload:
    """Return the ended jobs of the scheduler as a trace, with the nodes that it has now."""
    from weft.history.metrics.history import Selection, read_history
    from weft.lab.compare.workload import ReadWorkload
    from weft.sim.traces.history import export

    if args.trace:
        raise InputError("a trace and --from-live are both given", hint="give one or the other")
    nodes: dict[str, Node] = {}
    history = read_history(_collect_nodes(live_history.facts(args.scheduler), nodes))
    chosen = Selection(None if args.since is None else flags.since_s(args.since))
    found = export(history, chosen.of(history.record, time.time()).jobs, name=LIVE)
    where = live_history.source(args.scheduler)
    for reason, count in found.left_out.items():
        render.print_message(f"left out {plural(count, 'job')}: {reason}")
    if not found.trace.jobs:
        raise InputError(f"no ended job of {where} can be simulated", hint="let jobs end first, or check --since")
    if not args.cluster and not any(node.gpus for node in nodes.values()):
        raise InputError(f"{where} has no nodes at present", hint="name a cluster: --cluster NODESxGPUS")
    jobs = tuple(
        each if each.job.declared_s is not None else replace(each, job=replace(each.job, declared_s=each.work_s))
        for each in found.trace.jobs
    )
    return ReadWorkload(replace(found.trace, jobs=jobs), tuple(nodes.values()))


def _collect_nodes(facts: Iterable[Fact], nodes: dict[str, Node]) -> Iterator[Fact]:
    """Yield the facts, and keep the nodes that are there at their end."""
    from weft.model import NodeJoined, NodeLost

    for fact in facts:
        if type(fact) is NodeJoined:
            nodes[fact.node.id] = fact.node
        elif type(fact) is NodeLost:
            nodes.pop(fact.node, None)
        yield fact


def simulate_present(args: argparse.Namespace) -> int:
    """Simulate what follows from the present state, and print the figures of its unfinished jobs."""
    for name in UNUSABLE:
        if getattr(args, name):
            shown = "a trace" if name == "trace" else f"--{name}"
            raise InputError(f"{shown} and --from-live are both given", hint="the simulation starts from the scheduler")
    from weft.history.metrics.figures import figures as compute
    from weft.sim.forecast.present import simulate_from

    policy = args.policy or present_policy(args)
    if not policy:
        raise InputError("no scheduler runs, so that it has no policy", hint="add --policy NAME")
    found = simulate_from(
        live_history.facts(args.scheduler), policy, args.placement, seed=args.seed, now=time.time()
    )  # fmt: skip
    where = live_history.source(args.scheduler)
    if not found.record.jobs:
        raise InputError(f"{where} has no unfinished jobs", hint="submit some, or simulate a trace")
    values = {**asdict(compute(found.record)), "cpu_s": found.cpu_s}
    summary = {
        "schema": 1, "scheduler": where, "policy": policy, "gpus": found.gpus, "seed": args.seed, **values
    }  # fmt: skip
    if args.out is not None:
        from weft.history.journal.memory import MemoryJournal
        from weft.sim.output import write_output

        write_output(args.out, found.record, MemoryJournal(*found.facts), summary, force=args.force)
    unended = sum(job.end is None for job in found.record.jobs)
    if unended:
        render.print_message(f"{plural(unended, 'job')} did not end: held, impossible, or of unknown duration")
    if args.json:
        render.print_json(summary)
        return 0
    from weft.cli.views.lab import figures

    title = f"{policy} from the present state of {where}: {plural(len(found.record.jobs), 'job')}, {found.gpus:,} GPUs"
    pairs = [("policy", Cell(policy, raw=policy)), *figures.pairs(values)]
    pairs.append(("CPU seconds", figures.cell("cpu_s", found.cpu_s)))
    tables.print_pairs(pairs, args.color, title=title, keys=["policy", *figures.LABELS, "cpu_s"])
    return 0


def present_policy(args: argparse.Namespace) -> str:
    """Return the policy of the scheduler; empty: none runs, and its history is read from the disk."""
    from weft.cli import connection

    client = connection.connect_if_running(args.scheduler)
    if client is None:
        return ""
    with client:
        return client.queue(limit=1).policy or "fifo"
