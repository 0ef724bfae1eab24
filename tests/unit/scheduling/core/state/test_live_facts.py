"""Facts that only real machines report: blocked GPUs, measured memory, requests to run again, protected runs."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid, node, part
from support.state_checks import check
from weft.model import (
    Blocked,
    Cordoned,
    Exited,
    Fact,
    Gpu,
    Job,
    Measured,
    Node,
    NodeJoined,
    NodeLost,
    Paused,
    PerRank,
    Purged,
    Resumed,
    Start,
    Started,
    Stop,
    Submitted,
    Task,
    Unblocked,
    Uncordoned,
    Where,
)
from weft.scheduling.core.explain import explain
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State


def reasons(rig: Rig, job: str) -> list[str]:
    return [reason.code for reason in explain(rig.scheduler, job).reasons]


def test_nobody_new_comes_to_a_blocked_gpu_and_whoever_is_there_stays() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(Job("a"))
    rig.tell(Blocked(0.0, "n0", 0, "Drained"), Blocked(0.0, "n0", 1, "ForeignProcess", detail="pid 7 (python)"))
    rig.submit(Job("b"))
    assert (set(rig.active), reasons(rig, "b")) == ({"a"}, ["Resources", "Drained", "ForeignProcess"])
    rig.exit("a")
    assert not rig.active
    rig.tell(Unblocked(0.0, "n0", 1, "ForeignProcess"))
    assert rig.active == {"b": (("n0", (1,)),)}


def test_a_gpu_is_free_once_every_reason_is_gone() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.tell(Blocked(0.0, "n0", 0, "Drained"), Blocked(0.0, "n0", 0, "DirtyGpu"))
    rig.submit(Job("a"))
    rig.tell(Unblocked(0.0, "n0", 0, "DirtyGpu"))
    assert not rig.active
    rig.tell(Unblocked(0.0, "n0", 0, "Drained"))
    assert set(rig.active) == {"a"}


def test_memory_that_others_have_taken_is_not_given_out() -> None:
    rig = Rig("fifo", [node("n0", 2, memory_mb=100)])
    rig.tell(Blocked(0.0, "n0", 0, "ForeignProcess", 60))
    rig.submit(Job("a", memory_mb=PerRank(50)), Job("b", memory_mb=PerRank(50)), Job("c", memory_mb=PerRank(40)))
    assert rig.active == {"a": (("n0", (1,)),)}
    rig.cancel("b")
    assert rig.active == {"a": (("n0", (1,)),), "c": (("n0", (0,)),)}


@pytest.mark.parametrize(("seen_mb", "fits"), [(30, True), (80, False)])
def test_what_a_run_is_seen_to_need_is_what_it_holds(seen_mb: int, fits: bool) -> None:
    rig = Rig("fifo", [node("n0", 1, memory_mb=100)])
    rig.submit(Job("a", memory_mb=PerRank(60), share=part(2)), Job("b", memory_mb=PerRank(50), share=part(2)))
    assert set(rig.active) == {"a"}
    rig.tell(Measured(0.0, "a", 1, seen_mb))
    assert ("b" in rig.active) == fits


def test_out_of_memory_beside_others_runs_again_alone_with_more() -> None:
    rig = Rig("fifo", [node("n0", 1, memory_mb=100)])
    rig.submit(Job("a", memory_mb=PerRank(40), share=part(2)), Job("b", memory_mb=PerRank(40), share=part(2)))
    rig.begin("a", "b")
    rig.tell(Exited(0.0, "a", 1, "failed", code=1, why="oom"))
    again = rig.job("a")
    assert (again.status, again.failures, again.shape.memory_mb) == ("waiting", 0, PerRank(60))
    rig.exit("b")
    assert rig.job("a").active
    rig.tell(Exited(0.0, "a", 2, "failed", code=1, why="oom"))
    assert (rig.job("a").status, rig.job("a").why) == ("failed", "oom")


def test_asking_to_run_again_spends_no_retry_and_a_time_limit_gets_none() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a", retries=1))
    rig.tell(Exited(0.0, "a", 1, "requeued", code=85))
    assert (rig.job("a").run, rig.job("a").failures, rig.job("a").requeues) == (2, 0, 1)
    rig.tell(Exited(0.0, "a", 2, "failed", why="timeout"))
    assert (rig.job("a").status, rig.job("a").why) == ("failed", "timeout")


def test_nothing_starts_while_paused() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.tell(Paused(0.0))
    rig.submit(Job("a"))
    assert (rig.active, reasons(rig, "a")[0]) == ({}, "Paused")
    rig.tell(Resumed(0.0))
    assert set(rig.active) == {"a"}


def test_only_what_has_ended_is_forgotten() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"), Job("b"))
    rig.exit("a")
    rig.tell(Purged(0.0, ("a", "b", "z")))
    assert set(rig.state.jobs) == {"b"}


def test_a_run_is_left_alone_for_its_first_seconds() -> None:
    rig = Rig("priority:preempts=on", grid(1, 1), protection=Protection(min_run_s=60))
    rig.submit(Job("low"))
    rig.settle()
    rig.later(10.0)
    rig.submit(Job("high", priority=5))
    assert rig.job("low").status == "running"
    assert rig.alarm == 60.0
    rig.later(49.0)
    assert rig.job("low").status == "running"
    rig.later(1.0)
    assert rig.job("low").status == "stopping"


@pytest.mark.parametrize(("own_s", "until_s"), [(0.0, 0.0), (20.0, 20.0), (100.0, 60.0)])
def test_a_job_lowers_its_own_protection_and_never_raises_it(own_s: float, until_s: float) -> None:
    rig = Rig("priority:preempts=on", grid(1, 1), protection=Protection(min_run_s=60))
    rig.submit(Job("low", task=Task(min_run_s=own_s)))
    rig.settle()
    rig.submit(Job("high", priority=5))
    assert rig.job("low").status == ("running" if until_s else "stopping")
    if until_s:
        assert rig.alarm == until_s
        rig.later(until_s)
        assert rig.job("low").status == "stopping"


def test_a_job_is_preempted_only_so_often() -> None:
    rig = Rig("priority:preempts=on", grid(1, 1), protection=Protection(max_preemptions=1))
    rig.submit(Job("low"))
    rig.settle()
    rig.submit(Job("high", priority=5))
    rig.settle()
    rig.exit("high")
    rig.settle()
    assert (rig.job("low").status, rig.job("low").preemptions) == ("running", 1)
    rig.submit(Job("higher", priority=9))
    assert rig.job("low").status == "running"


def test_pinned_gpus_that_are_blocked_are_waited_for() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.tell(Blocked(0.0, "n0", 1, "Drained"))
    rig.submit(Job("a", where=Where(pinned=(("n0", (1,)),))))
    assert not rig.active
    rig.tell(Unblocked(0.0, "n0", 1, "Drained"))
    assert rig.active == {"a": (("n0", (1,)),)}


def test_nobody_new_comes_to_a_closed_node_with_or_without_gpus_and_whoever_is_there_stays() -> None:
    rig = Rig("fifo", [node("n0", 2, cpus=8)])
    rig.submit(Job("a"))
    rig.tell(Cordoned(0.0, "n0", "Drained", "drained by root"), Cordoned(0.0, "n0", "ReqNodeNotAvail", "silent"))
    rig.submit(Job("b"), Job("c", 0, cpus=1))
    assert (set(rig.active), reasons(rig, "b")) == ({"a"}, ["Resources", "Drained", "ReqNodeNotAvail"])
    rig.tell(Uncordoned(0.0, "n0", "Drained"))
    assert set(rig.active) == {"a"}
    rig.tell(Uncordoned(0.0, "n0", "ReqNodeNotAvail"))
    assert set(rig.active) == {"a", "b", "c"}


def test_a_node_that_comes_back_is_as_closed_as_it_was() -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.tell(Cordoned(0.0, "n1", "Drained"), NodeLost(0.0, "n1"), NodeJoined(0.0, grid(2, 2)[1]))
    rig.submit(Job("a", 2), Job("b", 2))
    assert rig.active == {"a": (("n0", (0, 1)),)}
    rig.tell(Uncordoned(0.0, "n1", "Drained"))
    assert rig.active["b"] == (("n1", (0, 1)),)


def test_preemption_makes_no_room_on_a_closed_node() -> None:
    rig = Rig("priority:preempts=on", grid(1, 1))
    rig.submit(Job("low"))
    rig.begin("low")
    rig.tell(Cordoned(0.0, "n0", "Drained"))
    rig.submit(Job("high", priority=5))
    assert (rig.job("low").status, rig.job("high").status) == ("running", "waiting")


@pytest.mark.parametrize("policy", ["fifo", "simple", "balanced"])
def test_a_job_that_nothing_there_could_ever_hold_keeps_nobody_waiting(policy: str) -> None:
    rig = Rig(policy, [node("n0", 2)])
    rig.submit(Job("huge", 1, where=Where(gpu_model="none")), Job("a", 2), Job("b", 2), Job("c"))
    assert (set(rig.active), reasons(rig, "huge")) == ({"a"}, ["ReqNodeNotAvail"])
    rig.exit("a")
    assert set(rig.active) == {"b"}
    rig.tell(NodeJoined(0.0, node("n1", 1, model="none")))
    assert rig.active["huge"] == (("n1", (0,)),)


def test_with_an_interval_jobs_start_in_rounds_also_for_a_policy_with_a_key() -> None:
    rig = Rig("fifo", grid(1, 4), interval_s=60.0)
    rig.later(70.0)
    rig.submit(Job("a"))
    rig.later(10.0)
    rig.submit(Job("b"), Job("c"))
    rig.later(49.0)
    assert set(rig.active) == {"a"}
    rig.later(2.0)
    assert set(rig.active) == {"a", "b", "c"}
    rig.submit(Job("d"))
    assert reasons(rig, "d") == ["NextRound"]
    rig.scheduler.plan_at_once()
    rig.tell()
    assert set(rig.active) == {"a", "b", "c", "d"}


def test_no_alarm_is_set_for_a_round_while_nothing_may_start() -> None:
    rig = Rig("fifo", interval_s=60.0)
    rig.tell(Paused(0.0))
    rig.join(*grid(1, 1))
    rig.submit(Job("a"))
    assert rig.alarm is None
    rig.tell(Resumed(0.0))
    assert set(rig.active) == {"a"}


def counts(state: State) -> tuple[int, int, int]:
    """All GPUs, the idle ones, and those that are idle once stopping runs have ended."""
    host = state.resources.by_id["n"]
    return state.gpus, state.resources.idle.count[host.index], state.resources.after_release.count[host.index]


def test_a_living_node_gains_gpus_and_its_runs_keep_theirs() -> None:
    facts: list[Fact] = [
        NodeJoined(0, Node("n", (Gpu(),) * 3)),
        *(Submitted(1, Job(name, 1)) for name in "ab"),
        Start(2, "a", 1, (("n", (0,)),)), Started(2, "a", 1),
        Start(2, "b", 1, (("n", (1,)),)), Started(2, "b", 1), Stop(3, "b", 1, "preempted"),
        Blocked(3, "n", 2, "ForeignProcess"), Cordoned(3, "n", "Drained"), Uncordoned(3, "n", "Drained"),
    ]  # fmt: skip
    state = State()
    for fact in facts:
        assert state.apply(fact)
    before = counts(state)
    assert not state.apply(NodeJoined(4, Node("n", (Gpu(),) * 3)))
    assert not state.apply(NodeJoined(4, Node("n", (Gpu(),) * 2)))
    assert not state.apply(NodeJoined(4, Node("n", (Gpu("other"), *(Gpu(),) * 4))))
    assert counts(state) == before
    assert state.apply(NodeJoined(4, Node("n", (Gpu(),) * 5)))
    assert counts(state) == (5, before[1] + 2, before[2] + 2)
    check(state)
    assert state.resources.by_id["n"].holders[:2] == [[state.jobs["a"]], [state.jobs["b"]]]
    again = State()
    for fact in snapshot(state):
        again.apply(fact)
    assert counts(again) == counts(state)
    assert state.apply(Exited(5, "b", 1, "stopped"))
    assert state.apply(Unblocked(5, "n", 2, "ForeignProcess"))
    assert state.apply(Exited(6, "a", 1, "done"))
    assert counts(state) == (5, 5, 5)
    assert state.apply(NodeLost(7, "n"))
    assert state.gpus == 0
