"""Replanning with a long queue: the CPU time of Muri per event, and of Loom per decision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from benchmarks.figure import Figure
from weft.scheduling.core.scheduler import Scheduler
from weft.sim.clusters.reader import read_cluster
from weft.sim.engine import Engine
from weft.sim.simulation import Model, Setting, prepare
from weft.sim.traces.generator import generate
from weft.sim.traces.trace import TraceJob

WAITING, EVENTS = 20_000, 200
LOOM_GOALS_MS = {2_000: 6.0, 20_000: 25.0}
"""The cost of a decision of Loom by the number of live jobs."""


def figures() -> Iterator[Figure]:
    for policy in ("muri-s", "muri-l"):
        yield from _measure(policy, "16x8", WAITING, 25.0)
    for policy in ("loom-s", "loom-l"):
        for waiting, goal in LOOM_GOALS_MS.items():
            yield _measure_decisions(policy, "8x8", waiting, goal)


def _measure(policy: str, cluster: str, waiting: int, goal: float) -> Iterator[Figure]:
    """Submit all jobs at 0. The first step plans all of them, each later step handles a completion."""
    scheduler, engine = _prepare(policy, cluster, waiting)
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


def _measure_decisions(policy: str, cluster: str, waiting: int, goal: float) -> Figure:
    """Submit all jobs at 0, and measure the steps of the scheduler that plan: each but the first follows an end."""
    scheduler, engine = _prepare(policy, cluster, waiting, "real")
    took = []
    for events in islice(engine.instants(), 10 * EVENTS):
        planned_at, started = scheduler.state.planned_at, time.process_time()
        decisions = scheduler.step(*events)
        if scheduler.state.planned_at != planned_at:
            took.append(time.process_time() - started)
        for decision in decisions:
            engine.execute(decision)
    _, *warm = took
    name = f"{policy}, {waiting} live on {cluster}, mean of {len(warm)} plans"
    return Figure(name, 1e3 * sum(warm) / len(warm), "CPU ms/decision", goal)


def _prepare(policy: str, cluster: str, waiting: int, model: Model = "muri") -> tuple[Scheduler, Engine]:
    trace = generate(waiting, seed=5, gpus_in_cluster=128)
    jobs = [TraceJob(0.0, job.job, job.work_s) for job in trace.jobs]
    return prepare(Setting(read_cluster(cluster), jobs, policy, model=model))
