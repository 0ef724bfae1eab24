"""Nodes that leave at a known time: nothing starts there that may run for longer."""

from __future__ import annotations

import pytest

from weft.model import (
    Event,
    Exited,
    Gpu,
    Job,
    Node,
    NodeEndChanged,
    NodeJoined,
    NodeLost,
    Progressed,
    Share,
    Start,
    Started,
    Submitted,
    Task,
    Wake,
    Where,
)
from weft.scheduling.core.explain import explain
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry

HOUR = 3600.0


def node(name: str, gpus: int = 2, until: float | None = None) -> NodeJoined:
    return NodeJoined(0.0, Node(name, (Gpu("A", 16_000),) * gpus, until=until))


def scheduler(policy: str = "fifo") -> Scheduler:
    made = registry.load_policy(policy)
    return Scheduler(made, registry.load_placement(made.placement))


def started(decisions: object) -> dict[str, str]:
    return {each.job: each.slots[0][0] for each in decisions if isinstance(each, Start)}  # type: ignore[attr-defined]


def submit(at: float, *jobs: Job) -> list[Event]:
    return [Submitted(at, job) for job in jobs]


JOBS = {
    "plain": {"declared_s": 2 * HOUR},
    "limited": {"task": Task(time_limit_s=2 * HOUR), "declared_s": 60.0},
    "without GPUs": {"declared_s": 2 * HOUR, "gpus": 0, "cpus": 1},
    "of a model": {"declared_s": 2 * HOUR, "where": Where("A")},
    "with CPUs": {"declared_s": 2 * HOUR, "cpus": 2},
    "shared": {"declared_s": 2 * HOUR, "share": Share(0.5, 0.5)},
    "a gang": {"declared_s": 2 * HOUR, "gpus": 2},
}


@pytest.mark.parametrize("fields", JOBS.values(), ids=JOBS)
def test_a_job_starts_only_on_nodes_that_stay_for_long_enough(fields: dict[str, object]) -> None:
    it = scheduler()
    it.step(node("soon", until=HOUR))
    job = Job("1", **fields)  # type: ignore[arg-type]
    assert started(it.step(*submit(0.0, job))) == {}
    assert it.impossible(it.state.jobs["1"]), "so it blocks no other"
    assert started(it.step(NodeJoined(1.0, Node("later", (Gpu("A", 16_000),) * 2, until=2 * HOUR + 10)))) == {
        "1": "later"
    }


def test_a_job_starts_when_the_end_of_a_node_moves_far_enough() -> None:
    it = scheduler()
    it.step(node("n", until=HOUR))
    assert started(it.step(*submit(0.0, Job("1", declared_s=2 * HOUR)))) == {}
    assert started(it.step(NodeEndChanged(1.0, "n", 3 * HOUR))) == {"1": "n"}
    it.step(NodeEndChanged(2.0, "n", HOUR), NodeEndChanged(2.0, "unknown", HOUR))
    assert started(it.step(*submit(3.0, Job("2", declared_s=2 * HOUR)))) == {}
    assert it.state.resources.by_id["n"].node.until == HOUR


def test_a_job_of_unknown_length_starts_unless_the_node_leaves_at_once() -> None:
    it = scheduler()
    it.step(node("n", until=HOUR))
    assert started(it.step(*submit(HOUR - 90, Job("1")))) == {"1": "n"}
    assert started(it.step(*submit(HOUR - 5, Job("2")))) == {}


def test_time_passes_for_a_node_between_plans() -> None:
    it = scheduler()
    it.step(node("n", until=HOUR))
    jobs = [Job(str(number), declared_s=1800.0) for number in (1, 2, 3)]
    assert started(it.step(*submit(1700.0, jobs[0]))) == {"1": "n"}
    assert started(it.step(*submit(1800.0, jobs[1]))) == {"2": "n"}, "it ends exactly when the node leaves"
    it.step(Started(1800.0, "1", 1), Started(1800.0, "2", 1))
    assert started(it.step(*submit(1810.0, jobs[2]))) == {}
    assert started(it.step(Exited(1900.0, "1", 1, "done"))) == {}, "a GPU is free, but not for long enough"
    assert started(it.step(*submit(1950.0, Job("4", declared_s=60.0)))) == {"4": "n"}, "a short job passes"


def test_jobs_that_waited_before_such_a_node_joined_are_judged_as_well() -> None:
    it = scheduler()
    it.step(*submit(0.0, Job("1", declared_s=2 * HOUR), Job("2", declared_s=60.0)))
    assert started(it.step(node("n", gpus=1, until=HOUR))) == {"2": "n"}
    assert [reason.code for reason in explain(it, "1").reasons] == ["LongerThanAllocations"]


def test_backfill_promises_nothing_beyond_the_end_of_a_node() -> None:
    it = scheduler("balanced:patience=0")
    it.step(node("n", until=HOUR))
    it.step(*submit(0.0, Job("1", gpus=2, declared_s=2000.0)))
    it.step(Started(0.0, "1", 1), Progressed(0.0, "1", 1, 2000.0))
    # it would have to wait 2000 s for the GPUs, and needs 1800 s: the node leaves at 3600 s
    it.step(*submit(1.0, Job("2", gpus=2, declared_s=1800.0)))
    it.step(NodeJoined(2.0, Node("m", (Gpu("A", 16_000),))))
    assert started(it.step(*submit(3.0, Job("3", declared_s=10 * HOUR)))) == {"3": "m"}


def test_a_gang_needs_all_its_nodes_for_its_whole_time() -> None:
    it = scheduler()
    it.step(node("a", until=HOUR), node("b"))
    assert started(it.step(*submit(0.0, Job("1", gpus=4, declared_s=2 * HOUR)))) == {}
    assert started(it.step(*submit(0.0, Job("2", gpus=4, declared_s=1000.0)))) != {}


def test_a_node_that_comes_back_without_an_end_stays() -> None:
    it = scheduler()
    it.step(node("n", until=HOUR))
    it.step(*submit(0.0, Job("1", declared_s=2 * HOUR)))
    it.step(NodeLost(1.0, "n"))
    assert started(it.step(NodeJoined(2.0, Node("n", (Gpu("A", 16_000),) * 2)))) == {"1": "n"}


def test_a_snapshot_keeps_ends_and_needs() -> None:
    it = scheduler()
    it.step(node("n", until=HOUR))
    it.step(*submit(0.0, Job("1", declared_s=2 * HOUR), Job("2", declared_s=60.0, after=("1",))))
    again = State()
    assert all(again.apply(fact) for fact in snapshot(it.state))
    assert again.resources.by_id["n"].node.until == HOUR
    assert {job.id: job.shape for job in again.jobs.values()} == {job.id: job.shape for job in it.state.jobs.values()}
    fresh = scheduler()
    fresh.replay(snapshot(it.state))
    assert started(fresh.step(Wake(10.0))) == {}


def test_without_such_nodes_shapes_have_no_time() -> None:
    it = scheduler()
    it.step(node("n"))
    it.step(*submit(0.0, Job("1", declared_s=60.0)))
    assert it.state.jobs["1"].shape.plain
