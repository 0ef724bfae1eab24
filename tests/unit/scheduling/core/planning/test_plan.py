"""Whole clusters as tables: who runs where, who waits, and who is started and stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from support.builders import Rig, acts, grid, node, profile, starts, stops
from support.state_checks import check
from weft.model import Job, Node, PerRank, Slots, Start, Where


def job(id: str, gpus: int = 1, left_s: float = 10.0, **rest: Any) -> Job:
    return Job(id, gpus, declared_s=left_s, **rest)


@dataclass(frozen=True)
class Case:
    """Jobs that run already, then jobs that come together; what is decided at once, and who runs when all is quiet."""

    nodes: tuple[Node, ...]
    running: tuple[Job, ...]
    come: tuple[Job, ...]
    started: dict[str, Slots]
    stopped: tuple[str, ...] = ()
    then: frozenset[str] | None = None
    policy: str = "srtf"


CASES = {
    "an idle GPU is taken before anybody is stopped": Case(
        grid(1, 2), (job("a", 1, 100),), (job("b", 1, 1),), {"b": (("n0", (1,)),)}
    ),
    "the worst is stopped": Case(
        grid(1, 2), (job("a", 1, 50), job("b", 1, 90)), (job("c", 1, 1),), {}, ("b",), frozenset("ac")
    ),
    "nobody is stopped for a worse or an equal job": Case(
        grid(1, 1), (job("a", 1, 50),), (job("b", 1, 50), job("c", 1, 60)), {}, (), frozenset("a")
    ),
    "no more are stopped than needed": Case(
        grid(1, 4),
        (job("a", 1, 90), job("b", 1, 80), job("c", 2, 70)),
        (job("d", 2, 1),),
        {},
        ("a", "b"),
        frozenset("cd"),
    ),
    "the better victims are let off": Case(
        grid(1, 4), (job("a", 1, 90), job("b", 3, 80)), (job("c", 3, 1),), {}, ("b",), frozenset("ac")
    ),
    "a gang needs one node emptied, and that is the one with the worst": Case(
        grid(2, 2),
        (job("a", 1, 50), job("b", 1, 60), job("c", 1, 70), job("d", 1, 80)),
        (job("e", 2, 1),),
        {},
        ("d", "c"),
        frozenset("abe"),
    ),
    "two halves of different nodes do not make a gang": Case(
        grid(2, 2),
        (job("a", 1, 1), job("b", 2, 99), job("c", 1, 2)),
        (job("d", 2, 50),),
        {},
        ("b",),
        frozenset("acd"),
    ),
    "what one of two waits for is not taken by the other": Case(
        grid(1, 2), (job("a", 2, 100),), (job("b", 2, 1), job("c", 1, 2)), {}, ("a",), frozenset("b")
    ),
    "those behind take what is left of what is vacated": Case(
        grid(1, 4), (job("a", 4, 100),), (job("b", 2, 1), job("c", 2, 2)), {}, ("a",), frozenset("bc")
    ),
    "a gang larger than a node takes several": Case(
        grid(2, 2), (), (job("a", 4, 10),), {"a": (("n0", (0, 1)), ("n1", (0, 1)))}
    ),
    "a gang that a node can hold is not split": Case(
        grid(2, 2), (job("a", 1, 1), job("b", 2, 2), job("c", 1, 3)), (job("d", 2, 50),), {}, (), frozenset("abc")
    ),
    "backfill skips who does not fit": Case(
        grid(1, 4), (job("a", 3, 5),), (job("b", 4, 10), job("c", 1, 20)), {"c": (("n0", (3,)),)}
    ),
    "first come, first served does not": Case(
        grid(1, 4), (job("a", 3, 5),), (job("b", 4, 10), job("c", 1, 20)), {}, (), frozenset("a"), policy="fifo"
    ),
    "a job without GPUs starts though all are taken": Case(
        grid(1, 1), (job("a", 1, 1),), (job("b", 0, 99),), {"b": (("n0", ()),)}
    ),
    "a job without GPUs waits for CPUs": Case(
        (node("n0", 2, cpus=8),),
        (job("a", 1, 50, cpus=6),),
        (job("b", 0, 60, cpus=3), job("c", 0, 70, cpus=2)),
        {"c": (("n0", ()),)},
    ),
    "a job that no node can ever hold keeps nobody from running": Case(
        grid(2, 2), (), (job("a", 9, 1), job("b", 2, 50)), {"b": (("n0", (0, 1)),)}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cluster(case: Case) -> None:
    rig = Rig(case.policy, case.nodes, placement="yarn")
    for each in case.running:
        rig.submit(each)
        rig.settle()
    assert set(rig.active) == {each.id for each in case.running}
    decisions = rig.submit(*case.come)
    assert starts(decisions) == case.started
    assert stops(decisions) == dict.fromkeys(case.stopped, "preempted")
    rig.settle()
    expected = case.then or {each.id for each in case.running} | set(case.started)
    assert set(rig.active) == expected
    check(rig.state, rig.facts)


def test_nobody_starts_on_gpus_that_are_being_vacated() -> None:
    rig = Rig("srtf", grid(1, 2))
    rig.submit(job("a", 1, 100), job("b", 1, 90))
    rig.settle()
    assert stops(rig.submit(job("c", 2, 1))) == {"a": "preempted", "b": "preempted"}
    assert acts(rig.leave("a")) == []
    assert acts(rig.submit(job("d", 1, 50))) == [], "the GPU that a left is promised to c"
    assert acts(rig.leave("b")) == [Start(0.0, "c", 1, (("n0", (0, 1)),))]


def test_a_better_job_takes_over_the_promise() -> None:
    rig = Rig("srtf", grid(1, 2))
    rig.submit(job("a", 2, 100))
    rig.settle()
    rig.submit(job("b", 2, 10))
    assert acts(rig.submit(job("c", 2, 1))) == [], "a is on its way out already: nobody else need go"
    assert acts(rig.leave("a")) == [Start(0.0, "c", 1, (("n0", (0, 1)),))]


def test_a_stop_is_asked_for_once() -> None:
    rig = Rig("srtf", grid(1, 1))
    rig.submit(job("a", 1, 100))
    rig.settle()
    assert stops(rig.submit(job("b", 1, 50))) == {"a": "preempted"}
    for left_s in (40, 30, 20):
        assert acts(rig.submit(job(f"c{left_s}", 1, left_s))) == []
    rig.settle()
    assert list(rig.active) == ["c20"]


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "tiresias", "themis", "antman", "muri-s", "muri-l"])
def test_jobs_may_come_before_the_first_node(policy: str) -> None:
    rig = Rig(policy)
    for each in (job("a"), job("b"), job("c", 2)):
        assert acts(rig.submit(each)) == []
    rig.join(*grid(1, 8))
    rig.settle()
    assert set(rig.active) == set("abc")


@pytest.mark.parametrize("news", ["cancel", "hold"])
@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_those_held_up_go_on_when_the_first_in_line_is_gone(policy: str, news: str) -> None:
    rig = Rig(policy, grid(1, 2))
    rig.submit(job("a", 1, 1))
    rig.submit(job("b", 2, 2), job("c", 1, 3))
    assert list(rig.active) == ["a"]
    decisions = rig.cancel("b") if news == "cancel" else rig.hold("b")
    assert starts(decisions) == {"c": (("n0", (1,)),)}


POLICIES = ["fifo", "srtf", "las", "tiresias", "themis", "antman", "muri-s", "muri-l"]


@pytest.mark.parametrize("policy", POLICIES)
def test_gpus_of_a_cancelled_run_go_to_who_waits(policy: str) -> None:
    rig = Rig(policy, grid(1, 1))
    rig.submit(job("a", 1, 1))
    rig.settle()
    rig.submit(job("b", 1, 50))
    rig.settle()
    rig.cancel(next(iter(rig.active)))
    rig.settle()
    assert len(rig.active) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_that_lost_a_node_starts_again_when_it_can(policy: str) -> None:
    rig = Rig(policy, grid(3, 2))
    rig.submit(job("a", 4, 100))
    rig.settle()
    rig.lose(rig.job("a").slots[0][0])
    rig.settle()
    assert (rig.job("a").status, rig.job("a").run) == ("running", 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_without_gpus_run_under_every_policy(policy: str) -> None:
    rig = Rig(policy, grid(1, 1))
    rig.submit(job("a", 1, 10), job("b", 0, 20))
    rig.settle()
    assert set(rig.active) == {"a", "b"}
    rig.now = 5.0
    rig.progress("b", 15.0)
    rig.exit("b")
    assert rig.job("b").status == "done"


@pytest.mark.parametrize("policy", ["muri-s", "muri-l"])
def test_jobs_too_large_to_be_woven_run_in_turn(policy: str) -> None:
    """Two of 20 MB do not fit a GPU of 32 MB together."""
    rig = Rig(policy, [node("n0", 1, memory_mb=32)])
    rig.submit(*(replace(job(id, 1, 10, memory_mb=PerRank(20)), profile=profile(2, 1, 1)) for id in "ab"))
    rig.settle()
    assert len(rig.active) == 1


@pytest.mark.parametrize("policy", ["themis", "muri-s", "muri-l"])
def test_who_can_not_be_placed_keeps_nobody_from_running(policy: str) -> None:
    rig = Rig(policy, [node("n0", 1, memory_mb=32)])
    rig.submit(job("huge", 1, 1, memory_mb=PerRank(64)))
    rig.submit(job("a", 1, 10, memory_mb=PerRank(8)))
    rig.settle()
    assert list(rig.active) == ["a"]


# ---- reservations (AntMan)


def reserving() -> Rig:
    """a has a GPU of two, b wants both and has reserved the other."""
    rig = Rig("antman", grid(1, 2))
    rig.submit(job("a"))
    rig.settle()
    rig.submit(job("b", 2))
    assert rig.job("b").reserved == (("n0", (1,)),)
    return rig


def test_a_reservation_ends_with_its_job() -> None:
    rig = reserving()
    rig.cancel("b")
    rig.submit(job("c"))
    assert rig.active == {"a": (("n0", (0,)),), "c": (("n0", (1,)),)}


def test_a_reservation_ends_with_its_node() -> None:
    rig = reserving()
    rig.lose("n0")
    assert rig.job("b").reserved == ()
    rig.join(node("n1", 2))
    rig.settle()
    assert list(rig.active) == ["a"]


def test_a_node_that_came_back_is_owned_anew() -> None:
    rig = Rig("antman", grid(1, 2))
    rig.submit(job("a"))
    rig.settle()
    rig.lose("n0")
    rig.join(*grid(1, 2))
    assert list(rig.active) == ["a"]
    rig.submit(job("c"))
    assert set(rig.active) == {"a", "c"}


@pytest.mark.parametrize("opportunistic", [False, True])
@pytest.mark.parametrize(
    "wanted", [{"where": Where(gpu_model="B")}, {"memory_mb": PerRank(40)}], ids=["model", "memory"]
)
def test_owners_and_guests_get_gpus_that_suit_them(opportunistic: bool, wanted: dict[str, Any]) -> None:
    rig = Rig("antman", [node("n0", 1, model="A", memory_mb=16), node("n1", 1, model="B", memory_mb=80)])
    rig.submit(Job("a", declared_s=10.0, opportunistic=opportunistic, **wanted))
    assert rig.active == {"a": (("n1", (0,)),)}


def test_the_ranks_of_a_gang_go_through_the_nodes_of_each_switch_by_name() -> None:
    switches = {"n10": "a", "n3": "b", "n2": "a", "n1": "b"}
    rig = Rig("fifo", [node(name, 1, switch=switch) for name, switch in switches.items()], placement="balanced")
    started = starts(rig.submit(job("gang", 4)))
    assert [name for name, _ in started["gang"]] == ["n2", "n10", "n1", "n3"]
