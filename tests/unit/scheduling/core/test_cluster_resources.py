"""Which GPUs a job may have: models, memory, CPUs, labels, pins, shares, weaves, and those being vacated."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import Rig, grid, node, part, starts
from support.state_checks import check
from weft.model import Gpu, Job, Node, PerRank, Share, Slots, Where
from weft.scheduling.core.ports import Ask, Replanner, View
from weft.scheduling.core.resources.shapes import plain_shape, shape_of

MIXED = (
    Node("old", (Gpu("K80", 12), Gpu("K80", 12)), cpus=8, ram_mb=64, labels=(("room", "cellar"),)),
    Node("new", (Gpu("A100", 80), Gpu("A100", 40), Gpu("V100", 32), Gpu("V100", 16)), cpus=16, ram_mb=64),
)


def job(id: str = "a", gpus: int = 1, **rest: Any) -> Job:
    return Job(id, gpus, **rest)


WANTED: dict[str, tuple[Job, Slots | None]] = {
    "anything": (job(), (("old", (0,)),)),
    "a model": (job(where=Where(gpu_model="V100")), (("new", (3,)),)),
    "both of a model": (job(gpus=2, where=Where(gpu_model="A100")), (("new", (0, 1)),)),
    "more of a model than a node has": (job(gpus=3, where=Where(gpu_model="A100")), None),
    "a model that nobody has": (job(where=Where(gpu_model="H100")), None),
    "memory: the smallest that will do": (job(memory_mb=PerRank(30)), (("new", (2,)),)),
    "memory beside other memory": (job(gpus=3, memory_mb=PerRank(30)), (("new", (0, 1, 2)),)),
    "memory that nobody has": (job(memory_mb=PerRank(81)), None),
    "memory per rank: each on a GPU that will do": (job(gpus=3, memory_mb=PerRank(10, 70, 35)), (("new", (3, 0, 1)),)),
    "memory per rank: too much for one": (job(gpus=2, memory_mb=PerRank(50, 50)), None),
    "a label": (job(where=Where(labels=(("room", "cellar"),))), (("old", (0,)),)),
    "a label that nobody has": (job(where=Where(labels=(("room", "attic"),))), None),
    "pinned": (job(where=Where(pinned=(("new", (2,)),))), (("new", (2,)),)),
    "pinned on two nodes": (
        job(gpus=2, where=Where(pinned=(("old", (1,)), ("new", (0,))))),
        (("old", (1,)), ("new", (0,))),
    ),
    "pinned where nobody is": (job(where=Where(pinned=(("gone", (0,)),))), None),
    "CPUs per GPU": (job(gpus=2, cpus=5), (("new", (2, 3)),)),
    "more CPUs than a node has": (job(gpus=2, cpus=9), None),
    "RAM per GPU": (job(gpus=4, ram_mb=16), (("new", (0, 1, 2, 3)),)),
    "more RAM than a node has": (job(gpus=4, ram_mb=65), None),
    "CPUs and no GPU": (job(gpus=0, cpus=9), (("new", ()),)),
    "nothing": (job(gpus=0), (("old", ()),)),
}


@pytest.mark.parametrize(("wanted", "expected"), WANTED.values(), ids=WANTED)
def test_where_a_job_goes(wanted: Job, expected: Slots | None) -> None:
    rig = Rig("fifo", MIXED)
    given = starts(rig.submit(wanted))
    assert given == ({} if expected is None else {"a": expected})
    check(rig.state, rig.facts)


FILLED: dict[str, tuple[Node, Job, int]] = {
    "whole GPUs": (node("n0", 4), job(), 4),
    "thirds": (node("n0", 2), job(share=part(3)), 6),
    "sevenths": (node("n0", 1), job(share=part(7)), 7),
    "halves, on the fullest GPUs first": (node("n0", 3), job(gpus=2, share=part(2)), 2),
    "memory before share": (node("n0", 1, memory_mb=100), job(share=part(4), memory_mb=PerRank(40)), 2),
    "limits before requests": (node("n0", 1), job(share=Share(0.25, 0.5)), 2),
    "CPUs": (node("n0", 8, cpus=12), job(gpus=2, cpus=2), 3),
    "CPUs of jobs without GPUs": (node("n0", 8, cpus=12), job(gpus=0, cpus=5), 2),
    "RAM": (node("n0", 8, ram_mb=100), job(ram_mb=30), 3),
}


@pytest.mark.parametrize(("on", "each", "expected"), FILLED.values(), ids=FILLED)
def test_how_many_of_a_kind_fit(on: Node, each: Job, expected: int) -> None:
    rig = Rig("fifo", [on])
    twins = [Job(f"{n}", each.gpus, memory_mb=each.memory_mb, cpus=each.cpus, ram_mb=each.ram_mb, share=each.share)
             for n in range(10)]  # fmt: skip
    assert len(starts(rig.submit(*twins))) == expected
    check(rig.state, rig.facts)
    rig.settle()
    rig.exit("0")
    assert len(rig.active) == min(expected, 9), "one leaves, the next comes"
    check(rig.state, rig.facts)


def test_shares_fill_a_gpu_before_they_open_another() -> None:
    rig = Rig("fifo", [node("n0", 2)])
    rig.submit(*(job(id, share=part(2)) for id in "abc"))
    assert rig.active == {"a": (("n0", (0,)),), "b": (("n0", (0,)),), "c": (("n0", (1,)),)}


def test_a_whole_gpu_is_not_given_where_a_share_lives() -> None:
    rig = Rig("fifo", [node("n0", 2)])
    rig.submit(job("a", share=part(2)))
    assert starts(rig.submit(job("b", 2))) == {}
    assert starts(rig.cancel("b")) == {}
    assert starts(rig.submit(job("c", 1))) == {"c": (("n0", (1,)),)}


class Together(Replanner):
    """Weaves all that wait."""

    preempts = True

    def rank(self, view: View) -> list[Ask]:
        jobs = tuple(sorted(job.id for job in view.waiting))
        return [Ask(jobs, 1)] if jobs else []

    def key(self, job: Any, now: float) -> float:
        return 0.0


@pytest.mark.parametrize(("memory_mb", "fits"), [(16, True), (17, False)])
def test_a_weave_is_one_share_and_the_memory_of_all(memory_mb: int, fits: bool) -> None:
    rig = Rig(Together(), [node("n0", 1, memory_mb=32)])
    decisions = rig.submit(job("a", memory_mb=PerRank(memory_mb)), job("b", memory_mb=PerRank(memory_mb)))
    assert bool(starts(decisions)) == fits
    check(rig.state, rig.facts)


def test_memory_of_a_weave_is_given_back_member_by_member() -> None:
    rig = Rig(Together(), [node("n0", 1, memory_mb=32)])
    rig.submit(job("a", memory_mb=PerRank(20)), job("b", memory_mb=PerRank(10)))
    rig.settle()
    resources, half = rig.state.resources, shape_of(job("c", memory_mb=PerRank(10), share=Share(0.0, 0.0)))
    assert resources.free_for(half, after_release=False).count == [0]
    rig.exit("b")
    assert resources.free_for(half, after_release=False).count == [1]


class Crowded(Together):
    oversubscription = 2.0


@pytest.mark.parametrize(("policy", "count"), [(Together(), 0), (Crowded(), 1)])
def test_oversubscription_is_about_limits(policy: Replanner, count: int) -> None:
    """The first requests nothing but may use the whole GPU; so may the second, where two wholes are allowed."""
    rig = Rig(policy, [node("n0", 1)])
    rig.submit(job("a", share=Share(0.0, 1.0)))
    rig.settle()
    guest = shape_of(job("b", share=Share(0.0, 1.0)))
    assert rig.state.resources.free_for(guest, after_release=False).count == [count]


def test_gpus_being_vacated_are_free_soon_but_not_idle() -> None:
    rig = Rig("srtf", [node("n0", 4, cpus=8)])
    rig.submit(job("long", 4, declared_s=100.0, cpus=2))
    rig.settle()
    rig.submit(job("short", 3, declared_s=1.0, cpus=2))
    assert rig.job("long").status == "stopping"
    resources = rig.state.resources
    for shape in (plain_shape(1), shape_of(job("x", cpus=2)), shape_of(job("y", memory_mb=PerRank(5)))):
        assert resources.free_for(shape, after_release=False).count == [0]
        assert resources.free_for(shape, after_release=True).count == [4]
    rig.leave("long")
    assert rig.active == {"short": (("n0", (0, 1, 2)),)}
    assert resources.free_for(plain_shape(1), after_release=False).count == [1]


def test_a_survivor_of_a_gang_keeps_its_rank_memory() -> None:
    """Rank 1 sits on the second node with 30 of 40 MB, whatever became of rank 0."""
    rig = Rig("fifo", [node("n0", 1, memory_mb=40), node("n1", 1, memory_mb=40)])
    rig.submit(job("gang", 2, memory_mb=PerRank(5, 30), share=part(2)))
    rig.settle()
    rig.lose("n0")
    assert starts(rig.submit(job("b", memory_mb=PerRank(20), share=part(2)))) == {}
    check(rig.state, rig.facts)


def test_a_gang_split_anyhow_has_its_memory_on_every_rank() -> None:
    """The first rank is on n0; the second needs 30 MB, and must not get the GPU of 10 MB."""
    nodes = [Node("n0", (Gpu("", 40),)), Node("n1", (Gpu("", 10), Gpu("", 40)))]
    rig = Rig("fifo", nodes, placement="count")
    rig.submit(job("gang", 2, memory_mb=PerRank(10, 30)))
    check(rig.state, rig.facts)


def test_a_node_that_comes_back_with_other_gpus_is_seen_anew() -> None:
    rig = Rig("fifo", [node("n0", 2, model="K80", memory_mb=12)])
    want = job(where=Where(gpu_model="A100"), memory_mb=PerRank(40))
    assert starts(rig.submit(want)) == {}
    rig.lose("n0")
    assert starts(rig.join(node("n0", 2, model="A100", memory_mb=80))) == {"a": (("n0", (0,)),)}


def test_pinned_gpus_that_are_taken_are_waited_for() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(job("a"))
    assert starts(rig.submit(job("b", where=Where(pinned=(("n0", (0,)),))))) == {}
    assert starts(rig.exit("a")) == {"b": (("n0", (0,)),)}
