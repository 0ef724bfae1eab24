"""Replicas move: a move loses no replica that serves, exceeds no GPU, and a restart changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.builders import Rig, node
from support.state_checks import check, snapshot
from weft.model import (
    Alarm,
    Decision,
    Deployed,
    DrainReplica,
    Event,
    Exited,
    Job,
    Limited,
    Move,
    NodeJoined,
    NodeLost,
    PerRank,
    Ready,
    ReplicaDrained,
    ScaleRule,
    Service,
    Share,
    Start,
    Submitted,
)
from weft.scheduling.core.state.apply.snapshots import snapshot as compact

NODES = (node("n0", 4, memory_mb=40, cpus=12), node("n1", 4, memory_mb=40), node("n2", 2, memory_mb=24))
PER_MINUTE = 2
PLACEMENT = f"holes:moves_per_minute={PER_MINUTE}"
BUDGET = settings(
    max_examples=15,
    stateful_step_count=40,
    derandomize=True,
    phases=(Phase.generate,),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TEMPLATES = {"chat": (0.2, 6, 0), "images": (0.3, 11, 3), "search": (0.45, 0, 0), "speech": (0.25, 6, 0)}
names = st.sampled_from(sorted(TEMPLATES))
which = st.integers(0, 1000)
counted: dict[str, int] = {}
"""The moves of each test: a test without any would show nothing."""


class Moving(Rig):
    def __init__(self, policy: str) -> None:
        super().__init__(policy, placement=PLACEMENT)

    def tell(self, *events: Event) -> list[Decision]:
        return self.look(super().tell(*events))

    def resize(self, service: str, replicas: int) -> list[Decision]:
        return self.look(super().resize(service, replicas))

    def look(self, decisions: list[Decision]) -> list[Decision]:
        """The decisions of one instant keep every service served."""
        for drained in (each for each in decisions if isinstance(each, DrainReplica) and each.why == "replaced"):
            service = self.state.services.of(self.job(drained.job))
            assert service is None or len(service.ready()) >= service.wanted, "a replica was drained too early"
        for move in (each for each in decisions if isinstance(each, Move)):
            counted["moves"] = counted.get("moves", 0) + 1
            replica = self.job(move.job)
            assert replica.job.gpus == 1
            assert replica.ready_at is not None, "the old replica still serves"
            new = [each for each in decisions if isinstance(each, Start) and each.slots == move.slots]
            assert any(self.job(each.job).job.replica is not None for each in new), "the new one starts at once"
        return decisions


class Restarted(Moving):
    """With a scheduler that is restored from the journal before every step."""

    def tell(self, *events: Event) -> list[Decision]:
        twin = self.fresh()
        twin.replay(self.facts)
        assert snapshot(twin.state) == snapshot(self.state)
        decisions = super().tell(*events)
        assert list(twin.step(*events)) == decisions
        return decisions


class Compacted(Moving):
    """With a scheduler that is restored from a snapshot before every step."""

    def tell(self, *events: Event) -> list[Decision]:
        twin = self.fresh()
        twin.replay([*compact(self.state), Alarm(self.state.now, self.scheduler.alarm)])
        assert snapshot(twin.state) == snapshot(self.state)
        decisions = super().tell(*events)
        assert list(twin.step(*events)) == decisions
        return decisions


class Services(RuleBasedStateMachine):
    """Services grow and shrink next to training on shared GPUs."""

    def __init__(self, rig: Moving) -> None:
        super().__init__()
        self.rig, self.tell, self.submitted = rig, rig.tell, 0

    @initialize()
    def nodes_join(self) -> None:
        self.tell(*(NodeJoined(0.0, each) for each in NODES))
        for _ in range(4):
            self.train(1, 0.6, 25)
        for at, name in enumerate(TEMPLATES):
            self.deploy(name, 1, 0.0)
            self.resize(at, 3)
        self.replicas_get_ready()
        self.resize(0, 1)
        self.replicas_drain()
        self.exit(0, "done")  # a GPU that a move can empty

    @rule(name=names, version=st.sampled_from([1, 1, 1, 2]), changed=st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.1]))
    def deploy(self, name: str, version: int, changed: float) -> None:
        request, memory_mb, cpus = TEMPLATES[name]
        share = Share(request + changed, request + 0.2)
        template = Job("", user="u", share=share, memory_mb=PerRank(memory_mb), cpus=cpus)
        scale = ScaleRule(min_replicas=1, max_replicas=6)
        self.tell(Deployed(self.rig.now, Service(name, template, scale, version=version)))

    @rule(index=which, replicas=st.integers(1, 6))
    def resize(self, index: int, replicas: int) -> None:
        if services := list(self.rig.state.services.by_name):
            self.rig.resize(services[index % len(services)], replicas)

    @rule(gpus=st.integers(1, 2), request=st.sampled_from([0.3, 0.6, 1.0]), memory_mb=st.sampled_from([0, 15, 25]))
    def train(self, gpus: int, request: float, memory_mb: int) -> None:
        self.submitted += 1
        share = Share(request, request)  # the limits of training alone add up to 1 also after a service has left
        self.tell(Submitted(self.rig.now, Job(f"j{self.submitted}", gpus, share=share, memory_mb=PerRank(memory_mb))))

    @rule(index=which, how=st.sampled_from(["done", "done", "failed"]))
    def exit(self, index: int, how: str) -> None:
        if runs := list(self.rig.state.active.values()):
            job = runs[index % len(runs)]
            if job.job.replica is None or how == "failed":
                self.tell(Exited(self.rig.now, job.id, job.run, how))  # type: ignore[arg-type]

    @rule()
    def replicas_get_ready(self) -> None:
        self.rig.settle()
        runs = [job for job in self.rig.state.active.values() if job.job.replica is not None]
        if starting := [Ready(self.rig.now, job.id, job.run) for job in runs if job.ready_at is None]:
            self.tell(*starting)

    @rule()
    def replicas_drain(self) -> None:
        runs = [job for job in self.rig.state.active.values() if job.draining_since is not None]
        if runs:
            self.tell(*(ReplicaDrained(self.rig.now, job.id, job.run) for job in runs))
        self.rig.settle()

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds: int) -> None:
        self.rig.later(float(seconds))

    @rule(index=st.integers(0, 2), lost=st.sampled_from([True, False, False]))
    def node_lost_or_back(self, index: int, lost: bool) -> None:
        self.tell(NodeLost(self.rig.now, NODES[index].id) if lost else NodeJoined(self.rig.now, NODES[index]))

    @rule(gpus=st.sampled_from([None, None, 6]))
    def limit(self, gpus: int | None) -> None:
        self.tell(Limited(self.rig.now, "u", gpus))

    @invariant()
    def sound(self) -> None:
        check(self.rig.state, self.rig.facts)

    @invariant()
    def moves_keep_to_their_limit(self) -> None:
        times = [fact.at for fact in self.rig.facts if isinstance(fact, Move)]
        for first, later in zip(times, times[PER_MINUTE:], strict=False):
            assert later - first >= 60.0, f"{PER_MINUTE + 1} moves from {first} to {later}"

    @invariant()
    def training_never_moves(self) -> None:
        for fact in self.rig.facts:
            assert not isinstance(fact, Move) or self.rig.job(fact.job).job.replica is not None


@pytest.mark.parametrize(("policy", "make"), [("fifo", Compacted), ("srsf", Restarted), ("muri-l", Restarted)])
def test_moves_are_sound(policy: str, make: Callable[[str], Moving]) -> None:
    counted.clear()
    run_state_machine_as_test(lambda: Services(make(policy)), settings=BUDGET)  # type: ignore[arg-type]
    assert counted["moves"] >= 3
