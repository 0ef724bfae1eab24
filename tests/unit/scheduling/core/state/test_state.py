"""The effect of each fact on a job in each status; stale and impossible facts are dropped."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid, node
from support.state_checks import check, snapshot
from weft.model import (
    Cancelled,
    Exited,
    Fact,
    Held,
    Job,
    KeyChanged,
    NodeJoined,
    NodeLost,
    Outcome,
    Progressed,
    Released,
    Start,
    Started,
    Stop,
    Submitted,
    Task,
)
from weft.model.status import Status
from weft.scheduling.core.state.state import State

ON = (("n0", (0,)),)
TO: dict[Status, tuple[Fact, ...]] = {
    "waiting": (),
    "held": (Held(1, "a"),),
    "starting": (Start(1, "a", 1, ON),),
    "running": (Start(1, "a", 1, ON), Started(2, "a", 1)),
    "stopping": (Start(1, "a", 1, ON), Started(2, "a", 1), Stop(3, "a", 1, "preempted")),
    "done": (Start(1, "a", 1, ON), Exited(3, "a", 1, "done")),
    "failed": (Start(1, "a", 1, ON), Exited(3, "a", 1, "failed")),
    "cancelled": (Cancelled(1, "a"),),
}
"""The facts by which a job comes to each status."""


def state_with(*facts: Fact, job: Job | None = None, nodes: int = 2) -> State:
    state = State()
    for fact in (*(NodeJoined(0, each) for each in grid(nodes, 2)), Submitted(0, job or Job("a")), *facts):
        assert state.apply(fact)
    check(state)
    return state


@pytest.mark.parametrize("status", TO)
@pytest.mark.parametrize("how", ["done", "failed", "stopped", "lost"])
def test_news_of_another_run_is_dropped(status: Status, how: Outcome) -> None:
    state = state_with(*TO[status])
    before = snapshot(state)
    for run in (0, 2):
        for fact in (
            Exited(3, "a", run, how),
            Started(3, "a", run),
            Progressed(3, "a", run, 1.0),
            Stop(3, "a", run, "moved"),
        ):
            assert not state.apply(fact)
    assert snapshot(state)["jobs"] == before["jobs"]


def test_news_of_nobody_is_dropped() -> None:
    state = state_with()
    for fact in (Cancelled(1, "x"), Held(1, "x"), Released(1, "x"), Exited(1, "x", 1, "done"), Start(1, "x", 1, ON)):
        assert not state.apply(fact)
    assert not state.apply(NodeLost(1, "x"))
    assert not state.apply(KeyChanged(1, "x", 1.0))


def test_a_job_is_submitted_once_and_a_node_joins_once() -> None:
    state = state_with()
    assert not state.apply(Submitted(1, Job("a", gpus=2)))
    assert not state.apply(NodeJoined(1, node("n0", 2)))
    assert (state.jobs["a"].gpus, state.gpus) == (1, 4)


def test_a_stopping_run_keeps_its_gpus_until_it_has_left() -> None:
    state = state_with(*TO["stopping"])
    assert state.jobs["a"].slots == ON
    assert state.jobs["a"].active
    state.apply(Exited(4, "a", 1, "stopped", remaining_s=7.0))
    job = snapshot(state)["jobs"]["a"]
    assert (job["slots"], job["remaining_s"], job["preemptions"]) == ((), 7.0, 1)
    assert job["attained_s"] == 3, "it held its GPU from 1 to 4"
    check(state)


# ---- nodes


def test_a_run_on_a_lost_node_waits_again_at_once() -> None:
    state = state_with(*TO["running"], NodeLost(5, "n0"))
    assert (state.jobs["a"].status, state.jobs["a"].slots, state.gpus) == ("waiting", (), 2)
    assert not state.apply(Exited(6, "a", 1, "lost"))
    check(state)


def test_a_gang_is_held_until_its_survivors_have_left() -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.submit(Job("gang", gpus=4))
    rig.settle()
    decisions = rig.lose("n0")
    assert decisions == [Stop(0.0, "gang", 1, "node-lost")]
    assert rig.job("gang").slots == (("n1", (0, 1)),)
    assert rig.join(node("n0", 2)) == []
    assert rig.active == {"gang": (("n1", (0, 1)),)}
    rig.leave("gang")
    assert rig.active == {"gang": (("n0", (0, 1)), ("n1", (0, 1)))}
    assert rig.job("gang").run == 2
    check(rig.state)


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_job_that_must_not_run_twice_fails_if_its_node_is_lost(gpus: int) -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.submit(Job("a", gpus=gpus, task=Task(requeue=False)))
    rig.lose("n0")
    if gpus == 4:
        rig.leave("a")
    rig.join(node("n0", 2))
    assert rig.job("a").run == 2, "the first run never began"
    rig.settle()
    rig.lose(*{name for name, _ in rig.job("a").slots})
    assert (rig.job("a").status, rig.job("a").why) == ("failed", "node-lost")
    check(rig.state)


@pytest.mark.parametrize("how", ["stopped", "failed", "requeued"])
def test_a_job_that_must_not_run_twice_fails_if_it_is_preempted_unless_it_asks_for_more(how: Outcome) -> None:
    rig = Rig("priority:preempts=on", grid(1, 1))
    rig.submit(Job("a", task=Task(requeue=False)))
    rig.settle()
    rig.submit(Job("b", priority=1))
    rig.exit("a", how)
    assert rig.job("a").status == ("waiting" if how == "requeued" else "failed")
    assert rig.job("b").status == "starting"
    check(rig.state)


def test_the_second_node_of_a_gang_is_lost_while_it_stops() -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.submit(Job("gang", gpus=4))
    rig.settle()
    rig.lose("n0")
    assert rig.lose("n1") == []
    assert (rig.job("gang").status, rig.job("gang").slots) == ("waiting", ())
    check(rig.state)


@pytest.mark.parametrize("gpus", [2, 4, 1])
def test_a_node_may_come_back_under_its_id_with_other_gpus(gpus: int) -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.submit(Job("a", gpus=2), Job("b", gpus=2))
    rig.settle()
    rig.lose("n0")
    decisions = rig.join(node("n0", gpus))
    assert rig.state.gpus == 2 + gpus
    assert len(decisions) == (1 if gpus >= 2 else 0)
    check(rig.state)


def test_a_lost_run_waits_behind_the_running_ones_of_its_rank() -> None:
    """A job that lost its node must not take the GPUs of its equals."""
    rig = Rig("tiresias", grid(2, 1))
    rig.submit(Job("a"), Job("b"))
    rig.settle()
    assert rig.lose("n0") == []
    assert rig.job("b").status == "running"
    assert rig.job("a").tie_breaker > rig.job("b").tie_breaker


# ---- ends


@pytest.mark.parametrize(("retries", "ends"), [(0, "failed"), (1, "waiting")])
def test_a_failed_run_is_tried_again_as_often_as_allowed(retries: int, ends: Status) -> None:
    state = state_with(Start(1, "a", 1, ON), Exited(2, "a", 1, "failed"), job=Job("a", retries=retries))
    assert state.jobs["a"].status == ends
    check(state)


def test_retries_run_out() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a", retries=2))
    for _ in range(3):
        rig.exit("a", "failed")
    assert (rig.job("a").status, rig.job("a").run, rig.job("a").failures) == ("failed", 3, 2)


def test_a_retry_goes_to_the_tail() -> None:
    rig = Rig("las", grid(1, 1))
    rig.submit(Job("a", retries=1))
    rig.submit(Job("b"))
    rig.exit("a", "failed")
    assert list(rig.active) == ["b"]


@pytest.mark.parametrize("status", ["starting", "running", "stopping"])
def test_a_cancelled_run_is_told_to_stop_and_ends(status: Status) -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a", retries=5))
    if status != "starting":
        rig.begin("a")
    if status == "stopping":
        rig.tell(Stop(0.0, "a", 1, "preempted"))  # type: ignore[arg-type]
    decisions = rig.cancel("a")
    assert decisions == ([] if status == "stopping" else [Stop(0.0, "a", 1, "cancelled")])
    rig.exit("a", "failed")
    assert (rig.job("a").status, rig.job("a").slots) == ("cancelled", ())


def test_a_cancelled_run_that_finishes_first_is_done() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    rig.cancel("a")
    rig.exit("a", "done")
    assert rig.job("a").status == "done"


def test_a_cancelled_run_lost_with_its_node_is_cancelled() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    rig.cancel("a")
    rig.lose("n0")
    assert rig.job("a").status == "cancelled"
    check(rig.state)


@pytest.mark.parametrize("status", ["starting", "running", "stopping"])
def test_a_run_that_is_held_goes_on_and_is_held_afterwards(status: Status) -> None:
    state = state_with(*TO[status], Held(4, "a"))
    seen = [state.jobs["a"].status]
    for fact in (Exited(5, "a", 1, "stopped"), Released(6, "a")):
        assert state.apply(fact)
        seen.append(state.jobs["a"].status)
    assert seen == [status, "held", "waiting"]
    check(state)


@pytest.mark.parametrize("status", ["starting", "running", "stopping"])
def test_released_before_its_run_is_over(status: Status) -> None:
    state = state_with(*TO[status], Held(4, "a"), Released(5, "a"), Exited(6, "a", 1, "stopped"))
    assert state.jobs["a"].status == "waiting"


# ---- stamps: who is first among equals


def ranked(state: State) -> list[str]:
    return sorted(state.jobs, key=lambda id: state.jobs[id].tie_breaker)


def test_running_then_put_back_latest_first_then_first_come() -> None:
    state = State()
    state.apply(NodeJoined(0, node("n0", 8)))
    for id in "abcdef":
        state.apply(Submitted(0, Job(id)))
    for gpu, id in enumerate("dcba"):
        state.apply(Start(1, id, 1, (("n0", (gpu,)),)))
    assert ranked(state) == ["d", "c", "b", "a", "e", "f"]
    for id in "dc":
        state.apply(Stop(2, id, 1, "preempted"))
        state.apply(Exited(2, id, 1, "stopped"))
    assert ranked(state) == ["b", "a", "c", "d", "e", "f"]


def test_a_moved_run_keeps_its_place() -> None:
    state = state_with(Submitted(0, Job("b")), Start(1, "a", 1, ON), Start(1, "b", 1, (("n0", (1,)),)))
    stamp = state.jobs["a"].tie_breaker
    for fact in (Stop(2, "a", 1, "moved"), Exited(2, "a", 1, "stopped"), Start(2, "a", 2, (("n1", (0,)),))):
        assert state.apply(fact)
    assert state.jobs["a"].tie_breaker == stamp
    assert ranked(state) == ["a", "b"]
    assert (state.jobs["a"].moves, state.jobs["a"].preemptions) == (1, 0)


def test_a_job_whose_key_stepped_goes_behind_and_then_joins_the_running() -> None:
    state = state_with(Submitted(0, Job("b")), Submitted(0, Job("c")), Start(1, "a", 1, ON))
    state.apply(Start(1, "b", 1, (("n0", (1,)),)))
    state.apply(KeyChanged(5, "a", 1.0))
    assert ranked(state) == ["b", "c", "a"]
    state.apply(Progressed(6, "b", 1, 3.0))
    assert ranked(state) == ["b", "a", "c"]
