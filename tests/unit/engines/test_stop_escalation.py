"""How a run is made to end, step by step, on a clock that is only a number."""

from __future__ import annotations

from weft.engines.process.shim.stop_escalation import KILL_AGAIN_S, StopEscalation


def test_a_run_without_limit_is_left_alone() -> None:
    ending = StopEscalation(0.0, None, 30.0)
    assert ending.due(1e9) is None
    assert ending.next_at() is None
    assert ending.why == ""


def test_the_time_limit_tells_everybody_then_kills_again_and_again() -> None:
    ending = StopEscalation(100.0, 60.0, 30.0)
    assert ending.next_at() == 160.0
    assert ending.due(159.9) is None
    assert ending.due(160.0) == "term"
    assert ending.why == "timeout"
    assert ending.next_at() == 190.0
    assert ending.due(189.9) is None
    assert ending.due(190.0) == "kill"
    assert ending.due(190.1) is None
    assert ending.due(190.0 + KILL_AGAIN_S) == "kill"


def test_preempted_is_warned_then_killed() -> None:
    ending = StopEscalation(0.0, None, 30.0)
    assert ending.ask(10.0, "preempted", 60.0) == "warn"
    assert ending.next_at() == 70.0
    assert ending.due(70.0) == "kill"
    assert ending.why == "preempted"


def test_cancelled_while_preempted_ends_sooner_and_keeps_its_first_reason() -> None:
    ending = StopEscalation(0.0, None, 30.0)
    ending.ask(10.0, "preempted", 60.0)
    assert ending.ask(20.0, "cancelled", 30.0) == "term"
    assert ending.next_at() == 50.0
    assert ending.why == "preempted"


def test_preempted_while_cancelled_gains_no_time() -> None:
    ending = StopEscalation(0.0, None, 30.0)
    assert ending.ask(10.0, "cancelled", 30.0) == "term"
    assert ending.ask(20.0, "preempted", 60.0) is None
    assert ending.next_at() == 40.0
    assert ending.why == "cancelled"


def test_the_limit_counts_during_a_grace() -> None:
    ending = StopEscalation(0.0, 50.0, 5.0)
    assert ending.ask(40.0, "preempted", 60.0) == "warn"
    assert ending.due(50.0) == "term"
    assert ending.due(55.0) == "kill"
    assert ending.why == "preempted"


def test_without_grace_it_is_killed_at_once() -> None:
    ending = StopEscalation(0.0, None, 30.0)
    assert ending.ask(5.0, "cancelled", 0.0) == "kill"
    assert ending.due(5.0 + KILL_AGAIN_S) == "kill"
    assert ending.ask(6.0, "cancelled", 30.0) is None
