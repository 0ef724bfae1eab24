"""Replicas move to other GPUs so that GPUs become empty: no request is lost, and moves are limited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import Rig, node, starts, stops
from support.state_checks import check, snapshot
from weft.errors import InputError
from weft.model import (
    Alarm,
    Cordoned,
    Decision,
    Deployed,
    DrainReplica,
    Exited,
    Job,
    Limited,
    Move,
    PerRank,
    Ready,
    ReplicaDrained,
    ScaleRule,
    Service,
    Share,
    Timeouts,
    Wake,
)
from weft.model.node import Node
from weft.scheduling.core.state.apply.snapshots import snapshot as summed_up
from weft.scheduling.plugins import registry

GB = 1024
SMALL, LARGE = Share(0.3, 0.45), Share(0.6, 0.9)


def service(name: str, share: Share = SMALL, memory_mb: int = 6 * GB, *, gpus: int = 1, replicas: int = 1) -> Service:
    template = Job(name, gpus, user="u", share=share, memory_mb=PerRank(memory_mb))
    scale = ScaleRule(min_replicas=replicas, max_replicas=replicas)
    return Service(name, template, scale, timeouts=Timeouts(drain_s=30.0))


class Moving(Rig):
    def __init__(self, nodes: list[Node], options: str = "", policy: str = "fifo") -> None:
        super().__init__(policy, nodes, placement=f"holes{options}")

    def deploy(self, *services: Service) -> list[Decision]:
        decisions = self.tell(*(Deployed(self.now, each) for each in services))
        return decisions + self.all_ready()

    def all_ready(self) -> list[Decision]:
        self.settle()
        starting = [job for job in self.state.active.values() if job.job.replica is not None and job.ready_at is None]
        return self.tell(*(Ready(self.now, job.id, job.run) for job in starting)) if starting else []

    def drained(self, replica: str) -> list[Decision]:
        return self.tell(ReplicaDrained(self.now, replica, self.job(replica).run))

    @property
    def gpus(self) -> set[tuple[str, int]]:
        return {(name, gpu) for slots in self.active.values() for name, gpus in slots for gpu in gpus}

    def serving(self, name: str) -> list[str]:
        return [each.id for each in self.state.services.by_name[name].ready()]


def moves(decisions: list[Decision]) -> list[str]:
    return [each.job for each in decisions if isinstance(each, Move)]


def one_node(gpus: int = 2) -> list[Node]:
    return [node("n0", gpus, memory_mb=40 * GB)]


def apart(options: str = "", **rest: str) -> Moving:
    """Two replicas on two GPUs that would fit on one: what kept them apart has ended."""
    rig = Moving(one_node(), options, **rest)
    rig.submit(Job("train", share=LARGE, memory_mb=PerRank(30 * GB)))
    rig.settle()
    rig.deploy(service("a"))
    rig.deploy(service("b"))
    assert rig.active == {"train": (("n0", (0,)),), "a.0": (("n0", (0,)),), "b.0": (("n0", (1,)),)}
    return rig


def test_a_replica_leaves_its_gpu_for_another_without_a_gap() -> None:
    rig = apart()
    decisions = rig.exit("train")
    assert moves(decisions) == ["a.0"]
    assert starts(decisions) == {"a.1": (("n0", (1,)),)}
    assert rig.serving("a") == ["a.0"], "the old one serves until the new one does"
    decisions = rig.all_ready()
    assert [each.job for each in decisions if isinstance(each, DrainReplica)] == ["a.0"]
    assert rig.serving("a") == ["a.1"]
    rig.drained("a.0")
    rig.settle()
    assert rig.gpus == {("n0", 1)}
    check(rig.state, rig.facts)


def test_the_move_names_the_gpu_on_which_the_new_replica_starts() -> None:
    rig = apart()
    decisions = rig.exit("train")
    assert [each.slots for each in decisions if isinstance(each, Move)] == [(("n0", (1,)),)]


def test_placements_without_moves_move_nothing() -> None:
    rig = Moving(one_node())
    rig.placement = registry.load_placement("dilu")
    rig.scheduler = rig.fresh()
    rig.join(*one_node())
    rig.submit(Job("train", share=LARGE, memory_mb=PerRank(30 * GB)))
    rig.deploy(service("a"))
    rig.deploy(service("b"))
    assert moves(rig.exit("train")) == []


def test_no_moves_where_the_option_forbids_them() -> None:
    assert moves(apart(":moves_per_minute=0").exit("train")) == []
    with pytest.raises(InputError, match="must not be below 0"):
        registry.load_placement("holes:moves_per_minute=-1")


@pytest.mark.parametrize("policy", ["srsf", "tiresias", "themis", "muri-l"])
def test_moves_go_with_every_kind_of_policy(policy: str) -> None:
    assert moves(apart(policy=policy).exit("train")) == ["a.0"]


def test_training_and_replicas_on_several_gpus_never_move() -> None:
    rig = Moving(one_node(4))
    rig.submit(Job("one", share=SMALL, memory_mb=PerRank(6 * GB)), Job("two", 2, share=SMALL))
    rig.settle()
    rig.deploy(service("wide", SMALL, gpus=2))
    before = dict(rig.active)
    rig.later(600)
    assert rig.active == before
    assert not [fact for fact in rig.facts if isinstance(fact, Move)]


def test_replicas_that_hold_whole_gpus_never_move() -> None:
    rig = Moving(one_node())
    rig.deploy(service("a", Share()))
    rig.deploy(service("b"))
    assert not [fact for fact in rig.facts if isinstance(fact, Move)]


def spread(count: int, options: str = "") -> Moving:
    """As many replicas as GPUs, each on a GPU that held a training job until now."""
    rig = Moving(one_node(count), options)
    for at in range(count):
        rig.submit(Job(f"train{at}", share=LARGE, memory_mb=PerRank(30 * GB)))
    rig.settle()
    for at in range(count):
        rig.deploy(service(f"s{at}", Share(0.2, 0.3)))
    assert len(rig.gpus) == count
    rig.tell(*(Exited(rig.now, f"train{at}", rig.job(f"train{at}").run, "done") for at in range(count)))
    return rig


def test_moves_are_limited_within_a_minute_and_go_on_afterwards() -> None:
    rig = spread(5)
    begun = [fact.at for fact in rig.facts if isinstance(fact, Move)]
    assert begun == [0.0, 0.0], "two within the first minute"
    rig.all_ready()
    for replica in [job.id for job in rig.state.jobs.values() if job.draining_since is not None]:
        rig.drained(replica)
    rig.settle()
    assert rig.alarm == 60.0
    rig.later(59)
    assert len([fact for fact in rig.facts if isinstance(fact, Move)]) == 2
    rig.later(1)
    begun = [fact.at for fact in rig.facts if isinstance(fact, Move)]
    assert begun == [0.0, 0.0, 60.0, 60.0]
    check(rig.state, rig.facts)


def test_in_the_end_no_gpu_more_than_needed_is_in_use() -> None:
    rig = spread(5)
    for _ in range(10):
        rig.all_ready()
        for replica in [each.id for each in rig.state.active.values() if each.draining_since is not None]:
            rig.drained(replica)
        rig.settle()
        rig.later(60)
    assert len(rig.gpus) == 1
    assert [len(rig.serving(f"s{at}")) for at in range(5)] == [1] * 5


def test_a_gpu_with_more_replicas_than_the_limit_is_emptied_step_by_step() -> None:
    rig = Moving(one_node(), ":moves_per_minute=1")
    rig.submit(Job("train", share=Share(0.4, 0.6), memory_mb=PerRank(20 * GB)))
    rig.settle()
    rig.deploy(service("a", Share(0.25, 0.4), 10 * GB, replicas=2))
    rig.deploy(service("b", Share(0.25, 0.35), 3 * GB, replicas=2))
    assert len(rig.gpus) == 2
    rig.exit("train")
    for _ in range(6):
        rig.all_ready()
        for replica in [each.id for each in rig.state.active.values() if each.draining_since is not None]:
            rig.drained(replica)
        rig.settle()
        rig.later(60)
    assert len(rig.gpus) == 1
    times = [fact.at for fact in rig.facts if isinstance(fact, Move)]
    assert len(times) == 2
    assert times[1] >= times[0] + 60


def test_nothing_moves_to_a_cordoned_node() -> None:
    rig = Moving([node("n0", 1, memory_mb=40 * GB), node("n1", 1, memory_mb=40 * GB)])
    rig.submit(Job("train", share=LARGE, memory_mb=PerRank(30 * GB)))
    rig.settle()
    rig.deploy(service("a"))
    rig.deploy(service("b"))
    rig.tell(Cordoned(rig.now, "n1", "Drained", "for repair"))
    assert moves(rig.exit("train")) in ([], ["b.0"]), "off the cordoned node, not to it"


def test_a_replica_whose_user_has_no_quota_left_stays() -> None:
    rig = apart()
    rig.tell(Limited(rig.now, "u", 2))
    assert moves(rig.exit("train")) == []
    assert moves(rig.tell(Limited(rig.now, "u", 3))) == ["a.0"]


def test_a_node_without_cpus_for_the_new_replica_gets_none() -> None:
    nodes = [node("n0", 1, memory_mb=40 * GB, cpus=8), node("n1", 1, memory_mb=40 * GB, cpus=2)]
    rig = Moving(nodes)
    rig.submit(Job("train", share=LARGE, memory_mb=PerRank(30 * GB)))
    rig.settle()
    first, second = service("a"), service("b")
    rig.deploy(replace(first, template=replace(first.template, cpus=2)))
    rig.deploy(replace(second, template=replace(second.template, cpus=2)))
    assert rig.active["b.0"] == (("n1", (0,)),)
    assert moves(rig.exit("train")) == ["b.0"], "n1 has no CPUs left for a.0, n0 has CPUs for b.0"


def test_nothing_moves_while_gpus_are_being_released() -> None:
    rig = apart()
    rig.submit(Job("other", share=Share(0.1, 0.2)))
    rig.settle()
    assert stops(rig.cancel("other")) == {"other": "cancelled"}
    assert moves(rig.exit("train")) == []
    assert moves(rig.leave("other")) == ["a.0"]


def test_a_replay_and_a_snapshot_know_the_moves() -> None:
    rig = spread(5)
    replayed, restored = rig.fresh(), rig.fresh()
    replayed.replay(rig.facts)
    restored.replay([*summed_up(rig.state), Alarm(rig.now, rig.alarm)])
    assert snapshot(replayed.state) == snapshot(restored.state) == snapshot(rig.state)
    for at in (30.0, 60.0):
        assert replayed.step(Wake(at)) == restored.step(Wake(at)) == rig.scheduler.step(Wake(at))


def test_a_successor_that_fails_leaves_the_old_replica_serving() -> None:
    rig = apart()
    rig.exit("train")
    rig.settle()
    rig.exit("a.1", "failed")
    assert rig.serving("a") == ["a.0"]
    rig.later(10)
    rig.settle()
    assert rig.serving("a") == ["a.0"]
    rig.all_ready()
    assert rig.serving("a") == ["a.1"]
