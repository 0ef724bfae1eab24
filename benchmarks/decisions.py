"""How long the running scheduler takes to decide with a long queue: from cold, and when one GPU has been freed.

Only `Scheduler.step` is timed, driven as `server/loop.py` drives it: with the protection and the garbage collection of
the server, one step for each thing that happens. Journal and processes have benchmarks of their own.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.figure import Figure
from weft.core.queue.order import Protection
from weft.core.scheduler import Scheduler
from weft.model import Event, Exited, Fact, NodeJoined, Start, Started, Stop, Submitted, Wake
from weft.plugins import registry
from weft.server.settings import DEFAULT_POLICY, Settings
from weft.sim.clusters.reader import read_cluster
from weft.sim.traces.generator import generate

POLICIES = ("fifo", "sjf", "srtf", "srsf", "las", "tiresias", "simple", "balanced", "priority", DEFAULT_POLICY)
SIZES = (("1250x8", 100_000, 500.0, 5.0), ("64x8", 10_000, 30.0, 5.0))
"""Cluster, jobs that wait, and the goals in CPU ms: from cold, and warm."""
FREED, APART_S = 400, 0.25
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
    driver.take_up(_history(cluster, waiting))
    cold_ms, *_ = driver.happen(Wake(1.0))
    return cold_ms, [sum(driver.free_one(2.0 + APART_S * turn)) for turn in range(FREED)]


def _history(cluster: str, waiting: int) -> list[Fact]:
    nodes = read_cluster(cluster)
    trace = generate(waiting, seed=5, gpus_in_cluster=sum(len(node.gpus) for node in nodes))
    jobs = [replace(each.job, priority=number % PRIORITIES) for number, each in enumerate(trace.jobs)]
    return [*(NodeJoined(0.0, node) for node in nodes), *(Submitted(0.0, job) for job in jobs)]


class Driver:
    """A scheduler, and runs that do as they are told at once."""

    def __init__(self, policy_name: str) -> None:
        policy, usual = registry.load_policy(policy_name), Settings()
        protection = Protection(usual.min_run_s, usual.max_preemptions)
        self._scheduler = Scheduler(policy, registry.load_placement(policy.placement), protection=protection)
        self._random = random.Random(5)

    def take_up(self, facts: list[Fact]) -> None:
        """The jobs are in the state; nobody has sorted them yet."""
        gc.disable()
        for fact in facts:
            self._scheduler.fold(fact)
        gc.enable()
        gc.freeze()

    def happen(self, event: Event) -> list[float]:
        """CPU ms of the step that takes this event, then of those that take what comes of its decisions."""
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

    def free_one(self, now: float) -> list[float]:
        """A run on one GPU ends; whatever the scheduler wanted to be woken for before has happened by then."""
        while (due := self._scheduler.alarm) is not None and due <= now:
            self.happen(Wake(due))
        runs = [job for job in self._scheduler.state.active.values() if job.gpus == 1 and not job.releasing]
        ended = self._random.choice(runs)
        return self.happen(Exited(now, ended.id, ended.run, "done"))


def _p99(figures: list[float]) -> float:
    return sorted(figures)[-1 - len(figures) // 100]
