"""Decision times of the scheduler with a long queue: the first decision, and after one GPU becomes free.

Only `Scheduler.step` is timed. It is driven as `server/loop.py` drives it: with the server's protection and garbage
collection, one step per event. Other benchmarks measure the journal and the processes.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.figure import Figure
from weft.access.server.settings import DEFAULT_POLICY, Settings
from weft.model import Event, Exited, Fact, NodeJoined, Start, Started, Stop, Submitted, Wake
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.sim.clusters.reader import read_cluster
from weft.sim.traces.generator import generate

POLICIES = ("fifo", "sjf", "srtf", "srsf", "las", "tiresias", "simple", "balanced", "priority", DEFAULT_POLICY)
SIZES = (("1250x8", 100_000, 500.0, 5.0), ("64x8", 10_000, 30.0, 5.0))
"""Cluster, waiting jobs, and the goals in CPU ms: first decision, later decisions."""
ENDED_RUNS, INTERVAL_S = 400, 0.25
PRIORITIES = 5


def figures() -> Iterator[Figure]:
    for cluster, waiting, cold_goal, warm_goal in SIZES:
        for policy in POLICIES:
            cold_ms, warm_ms = _measure(policy, cluster, waiting)
            name = f"{policy}, {waiting} waiting on {cluster}"
            yield Figure(f"{name}, from cold", cold_ms, "CPU ms", cold_goal)
            yield Figure(f"{name}, p99 of {len(warm_ms)}", _p99(warm_ms), "CPU ms", warm_goal)


def _measure(policy: str, cluster: str, waiting: int) -> tuple[float, list[float]]:
    driver = Driver(policy)
    driver.load(_history(cluster, waiting))
    cold_ms, *_ = driver.handle(Wake(1.0))
    return cold_ms, [sum(driver.end_one_run(2.0 + INTERVAL_S * turn)) for turn in range(ENDED_RUNS)]


def _history(cluster: str, waiting: int) -> list[Fact]:
    nodes = read_cluster(cluster)
    trace = generate(waiting, seed=5, gpus_in_cluster=sum(len(node.gpus) for node in nodes))
    jobs = [replace(each.job, priority=number % PRIORITIES) for number, each in enumerate(trace.jobs)]
    return [*(NodeJoined(0.0, node) for node in nodes), *(Submitted(0.0, job) for job in jobs)]


class Driver:
    """A scheduler whose decisions take effect at once."""

    def __init__(self, policy_name: str) -> None:
        policy, usual = registry.load_policy(policy_name), Settings()
        protection = Protection(usual.min_run_s, usual.max_preemptions)
        self._scheduler = Scheduler(policy, registry.load_placement(policy.placement), protection=protection)
        self._random = random.Random(5)

    def load(self, facts: list[Fact]) -> None:
        """Apply facts to the state. The queue is not sorted yet."""
        gc.disable()
        for fact in facts:
            self._scheduler.fold(fact)
        gc.enable()
        gc.freeze()

    def handle(self, event: Event) -> list[float]:
        """Return the CPU ms of the step for this event, and of the steps for the results of its decisions."""
        took_ms, events = [], [event]
        while events:
            started = time.process_time()
            decisions = self._scheduler.step(*events)
            took_ms.append(1e3 * (time.process_time() - started))
            events = []
            for decision in decisions:
                if isinstance(decision, Start):
                    events.append(Started(event.at, decision.job, decision.run, 1.0))
                elif isinstance(decision, Stop):
                    events.append(Exited(event.at, decision.job, decision.run, "stopped"))
        return took_ms

    def end_one_run(self, now: float) -> list[float]:
        """End a run on one GPU, after all alarms that are due. Return the CPU ms of the steps."""
        while (due := self._scheduler.alarm) is not None and due <= now:
            self.handle(Wake(due))
        runs = [job for job in self._scheduler.state.active.values() if job.gpus == 1 and not job.releasing]
        ended = self._random.choice(runs)
        return self.handle(Exited(now, ended.id, ended.run, "done"))


def _p99(figures: list[float]) -> float:
    return sorted(figures)[-1 - len(figures) // 100]
