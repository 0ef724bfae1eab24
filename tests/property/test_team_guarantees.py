"""Whatever happens, teams get what they are guaranteed, others lose no more than that takes, and no job ping-pongs."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import Rig, grid, profile
from weft.model import (
    Decision,
    Deployed,
    DrainReplica,
    Job,
    Ready,
    ReplicaDrained,
    ScaleRule,
    Service,
    Stop,
    Task,
    Team,
    TeamSet,
)
from weft.scheduling.core.ports import Policy
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.teams.check import unserved_jobs
from weft.scheduling.core.teams.context import MIN_RECLAIM_GAP_S
from weft.scheduling.plugins import registry

TEAMS = ("a", "b", "d/x", "d/y", "")
POLICIES = ("fifo", "balanced", "srtf", "las", "themis", "muri-s", "muri-l", "loom-s", "loom-l")
KINDS = (None, profile(0.7, 0.2, 0.1), profile(0.1, 0.7, 0.2), profile(0.1, 0.2, 0.7))
"""Profiles that make weaves worth it."""
MIN_REPLICAS, MAX_REPLICAS = 1, 5

jobs = st.tuples(st.sampled_from(TEAMS), st.sampled_from((1, 2, 4, 8, 12)), st.integers(10, 900))
steps = st.lists(
    st.one_of(
        jobs,
        st.tuples(st.just("exit"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 200)),
        st.tuples(st.just("node"), st.integers(0, 1)),
        st.tuples(st.just("stops"), st.integers(0, 1)),
        st.tuples(st.just("replicas"), st.integers(MIN_REPLICAS, MAX_REPLICAS)),
    ),
    min_size=5,
    max_size=40,
)
guarantees = st.tuples(*[st.integers(0, 8)] * 4)


@cache
def load_policy(name: str) -> Policy:
    return registry.load_policy(name)


class Cluster:
    """A rig in which stopped runs leave at once or later, and which checks every decision."""

    def __init__(self, policy: str, figures: tuple[int, ...], min_run_s: float, served: str) -> None:
        self.rig = Rig(load_policy(policy), grid(2, 8), protection=Protection(min_run_s=min_run_s))
        self.stops_fast = True
        a, b, x, y = figures
        teams = (Team("a", a, max(a, 12)), Team("b", b), Team("d", x + y), Team("d/x", x), Team("d/y", y))
        self.rig.tell(*(TeamSet(0.0, team) for team in teams))
        self.reclaimed: dict[str, float] = {}
        self.number = 0
        for name, gpus, team in (("chat", 2, served), ("tiny", 1, "b")):
            template = Job(name, gpus, task=Task(team=team))
            self.settle(
                self.rig.tell(Deployed(0.0, Service(name, template, ScaleRule("fixed", MIN_REPLICAS, MAX_REPLICAS))))
            )

    def submit(self, team: str, gpus: int, declared_s: int) -> None:
        self.number += 1
        kind = KINDS[declared_s % len(KINDS)]
        job = Job(str(self.number), gpus, declared_s=float(declared_s), profile=kind, task=Task(team=team))
        self.settle(self.rig.submit(job))

    def exit(self, number: int) -> None:
        running = [job.id for job in self.rig.state.active.values() if not job.releasing and not job.job.replica]
        if running:
            self.settle(self.rig.exit(running[number % len(running)]))

    def change_node(self, number: int) -> None:
        """Lose a node, with what runs there, or let it come back."""
        node = grid(2, 8)[number]
        host = self.rig.state.resources.by_id[node.id]
        self.settle(self.rig.lose(node.id) if host.alive else self.rig.join(node))

    def change_stops(self, fast: int) -> None:
        """Let runs that stop leave at once from now on, or keep their GPUs until the next change."""
        self.stops_fast = bool(fast)
        self.settle([])

    def settle(self, decisions: list[Decision]) -> None:
        """Let runs start and stop as decided, until nothing more is decided."""
        for _ in range(50):
            self.check_reclaims(decisions)
            stopping = [job.id for job in self.rig.state.active.values() if job.releasing and self.stops_fast]
            starting = [job.id for job in self.rig.state.active.values() if job.status == "starting"]
            if starting:
                self.rig.begin(*starting)
            more = self.serve(starting, decisions)
            if not stopping and not more:
                break
            decisions = more + (self.rig.leave(*stopping) if stopping else [])
        else:
            raise AssertionError("the same jobs start and stop without an end")
        layer = self.rig.scheduler.layer()
        assert layer is not None
        held, most = layer.standing.held.get("a", 0.0), self.rig.state.teams.by_name["a"].max_gpus
        assert most is not None
        assert held <= most
        assert [job.id for job in unserved_jobs(layer)] == []

    def serve(self, started: list[str], decisions: list[Decision]) -> list[Decision]:
        """Let replicas that started get ready, and replicas that drain end."""
        rig = self.rig
        replicas = [rig.job(id) for id in started if rig.job(id).job.replica]
        drained = [rig.job(each.job) for each in decisions if isinstance(each, DrainReplica)]
        ready = [Ready(rig.now, each.id, each.run, f"n0:{each.id}") for each in replicas if each.active]
        gone = [ReplicaDrained(rig.now, each.id, each.run) for each in drained if each.active]
        return rig.tell(*ready, *gone) if ready or gone else []

    def check_reclaims(self, decisions: list[Decision]) -> None:
        rig = self.rig
        gone = [each for each in decisions if isinstance(each, Stop) and each.why == "reclaimed"]
        allocator = rig.scheduler.planner.context.allocator
        for name in {made_for.service for stop in gone if (made_for := rig.job(stop.job).job.replica)}:
            staying = rig.state.services.by_name[name].staying()
            assert sum(each.active and not each.releasing for each in staying) >= MIN_REPLICAS
        for stop in gone:
            assert rig.now - self.reclaimed.get(stop.job, -MIN_RECLAIM_GAP_S) >= MIN_RECLAIM_GAP_S
            self.reclaimed[stop.job] = rig.now
            needed = False
            for node, gpus in rig.job(stop.job).slots:
                index = rig.state.resources.by_id[node].index
                left = rig.state.resources.after_release.count[index] - allocator.kept.get(index, 0)
                needed = needed or left < len(gpus)
            assert needed, f"{stop.job} need not have stopped"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POLICIES), guarantees, st.sampled_from((0.0, 120.0)), st.sampled_from(TEAMS), steps)
def test_guarantees_hold_with_no_reclaim_beyond_need_and_no_ping_pong(
    policy: str,
    figures: tuple[int, ...],
    min_run_s: float,
    served: str,
    events: list[tuple[str, int] | tuple[str, int, int]],
) -> None:
    cluster = Cluster(policy, figures, min_run_s, served)
    for event in events:
        if event[0] == "exit":
            cluster.exit(event[1])
        elif event[0] == "wait":
            cluster.settle(cluster.rig.later(float(event[1])))
        elif event[0] == "node":
            cluster.change_node(event[1])
        elif event[0] == "replicas":
            cluster.settle(cluster.rig.resize("chat", event[1]))
            cluster.settle(cluster.rig.resize("tiny", MAX_REPLICAS + MIN_REPLICAS - event[1]))
        elif event[0] == "stops":
            cluster.change_stops(event[1])
        else:
            cluster.submit(*event)
