"""Replanning with a long queue: the CPU time of Muri per event."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from benchmarks.figure import Figure
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Setting, prepare
from weft.sim.traces.generator import generate
from weft.sim.traces.trace import TraceJob

WAITING, EVENTS = 20_000, 200


def figures() -> Iterator[Figure]:
    for policy in ("muri-s", "muri-l"):
        yield from _measure(policy, "16x8", WAITING, 25.0)


def _measure(policy: str, cluster: str, waiting: int, goal: float) -> Iterator[Figure]:
    """Submit all jobs at 0. The first step plans all of them, each later step handles a completion."""
    trace = generate(waiting, seed=5, gpus_in_cluster=128)
    jobs = [TraceJob(0.0, job.job, job.work_s) for job in trace.jobs]
    scheduler, engine = prepare(Setting(read_cluster(cluster), jobs, policy, model="muri"))
    took: dict[float, float] = {}
    for events in islice(engine.instants(), 3 * EVENTS):
        at, started = events[-1].at, time.process_time()
        for decision in scheduler.step(*events):
            engine.execute(decision)
        took[at] = took.get(at, 0.0) + time.process_time() - started
    cold, *warm = took.values()
    name = f"{policy}, {waiting} waiting on {cluster}"
    yield Figure(f"{name}, from cold", 1e3 * cold, "CPU ms")
    yield Figure(f"{name}, mean of {len(warm)} events", 1e3 * sum(warm) / len(warm), "CPU ms/event", goal)
