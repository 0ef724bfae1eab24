"""Whatever happens, teams get what they are guaranteed, others lose no more than that takes, and no job ping-pongs."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import Rig, grid
from weft.core.ports import Policy
from weft.core.teams.check import unserved_jobs
from weft.core.teams.context import MIN_RECLAIM_GAP_S
from weft.model import Decision, Job, Stop, Task, Team, TeamSet
from weft.plugins import registry

TEAMS = ("a", "b", "d/x", "d/y", "")
POLICIES = ("fifo", "balanced", "srtf", "las", "themis", "muri-s", "loom-s")

jobs = st.tuples(st.sampled_from(TEAMS), st.sampled_from((1, 2, 4, 8, 12)), st.integers(10, 900))
steps = st.lists(
    st.one_of(jobs, st.tuples(st.just("exit"), st.integers(0, 9)), st.tuples(st.just("wait"), st.integers(1, 200))),
    min_size=5,
    max_size=40,
)
guarantees = st.tuples(*[st.integers(0, 8)] * 4)


@cache
def load_policy(name: str) -> Policy:
    return registry.load_policy(name)


class Cluster:
    """A rig in which stopped runs leave at once, and which checks every decision."""

    def __init__(self, policy: str, figures: tuple[int, ...]) -> None:
        self.rig = Rig(load_policy(policy), grid(2, 8))
        a, b, x, y = figures
        teams = (Team("a", a, max(a, 12)), Team("b", b), Team("d", x + y), Team("d/x", x), Team("d/y", y))
        self.rig.tell(*(TeamSet(0.0, team) for team in teams))
        self.reclaimed: dict[str, float] = {}
        self.number = 0

    def submit(self, team: str, gpus: int, declared_s: int) -> None:
        self.number += 1
        self.settle(self.rig.submit(Job(str(self.number), gpus, declared_s=float(declared_s), task=Task(team=team))))

    def exit(self, number: int) -> None:
        running = [job.id for job in self.rig.state.active.values() if not job.releasing]
        if running:
            self.settle(self.rig.exit(running[number % len(running)]))

    def settle(self, decisions: list[Decision]) -> None:
        """Let runs start and stop as decided, until nothing more is decided."""
        for _ in range(50):
            self.check_reclaims(decisions)
            stopping = [job.id for job in self.rig.state.active.values() if job.releasing]
            starting = [job.id for job in self.rig.state.active.values() if job.status == "starting"]
            if starting:
                self.rig.begin(*starting)
            if not stopping:
                break
            decisions = self.rig.leave(*stopping)
        else:
            raise AssertionError("the same jobs start and stop without an end")
        layer = self.rig.scheduler.layer()
        assert layer is not None
        assert [job.id for job in unserved_jobs(layer)] == []

    def check_reclaims(self, decisions: list[Decision]) -> None:
        rig = self.rig
        gone = [each for each in decisions if isinstance(each, Stop) and each.why == "reclaimed"]
        allocator = rig.scheduler.planner.context.allocator
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
@given(st.sampled_from(POLICIES), guarantees, steps)
def test_guarantees_hold_with_no_reclaim_beyond_need_and_no_ping_pong(
    policy: str, figures: tuple[int, ...], events: list[tuple[str, int] | tuple[str, int, int]]
) -> None:
    cluster = Cluster(policy, figures)
    for event in events:
        if event[0] == "exit":
            cluster.exit(event[1])
        elif event[0] == "wait":
            cluster.settle(cluster.rig.later(float(event[1])))
        else:
            cluster.submit(*event)
