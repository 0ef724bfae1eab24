"""The escalation of a stop, step by step, on a simulated clock."""

from __future__ import annotations

from weft.node.engine.shim.shim import UNLIMITED_S
from weft.node.engine.shim.stop_escalation import KILL_RETRY_S, StopEscalation


def test_a_run_without_limit_is_left_alone() -> None:
    escalation = StopEscalation(0.0, None, 30.0)
    assert escalation.due_step(1e9) is None
    assert escalation.next_due_at() is None
    assert escalation.why == ""


def test_the_time_limit_tells_everybody_then_kills_again_and_again() -> None:
    escalation = StopEscalation(100.0, 60.0, 30.0)
    assert escalation.next_due_at() == 160.0
    assert escalation.due_step(159.9) is None
    assert escalation.due_step(160.0) == "term"
    assert escalation.why == "timeout"
    assert escalation.next_due_at() == 190.0
    assert escalation.due_step(189.9) is None
    assert escalation.due_step(190.0) == "kill"
    assert escalation.due_step(190.1) is None
    assert escalation.due_step(190.0 + KILL_RETRY_S) == "kill"


def test_preempted_is_warned_then_killed() -> None:
    escalation = StopEscalation(0.0, None, 30.0)
    assert escalation.request_stop(10.0, "preempted", 60.0) == "warn"
    assert escalation.next_due_at() == 70.0
    assert escalation.due_step(70.0) == "kill"
    assert escalation.why == "preempted"


def test_cancelled_while_preempted_ends_sooner_and_keeps_its_first_reason() -> None:
    escalation = StopEscalation(0.0, None, 30.0)
    escalation.request_stop(10.0, "preempted", 60.0)
    assert escalation.request_stop(20.0, "cancelled", 30.0) == "term"
    assert escalation.next_due_at() == 50.0
    assert escalation.why == "preempted"


def test_preempted_while_cancelled_gains_no_time() -> None:
    escalation = StopEscalation(0.0, None, 30.0)
    assert escalation.request_stop(10.0, "cancelled", 30.0) == "term"
    assert escalation.request_stop(20.0, "preempted", 60.0) is None
    assert escalation.next_due_at() == 40.0
    assert escalation.why == "cancelled"


def test_the_limit_counts_during_a_grace() -> None:
    escalation = StopEscalation(0.0, 50.0, 5.0)
    assert escalation.request_stop(40.0, "preempted", 60.0) == "warn"
    assert escalation.due_step(50.0) == "term"
    assert escalation.due_step(55.0) == "kill"
    assert escalation.why == "preempted"


def test_without_grace_it_is_killed_at_once() -> None:
    escalation = StopEscalation(0.0, None, 30.0)
    assert escalation.request_stop(5.0, "cancelled", 0.0) == "kill"
    assert escalation.due_step(5.0 + KILL_RETRY_S) == "kill"
    assert escalation.request_stop(6.0, "cancelled", 30.0) is None


def test_the_users_signal_comes_once_ahead_of_the_time_limit() -> None:
    escalation = StopEscalation(100.0, 60.0, 30.0, signal_lead_s=20.0)
    assert escalation.next_due_at() == 140.0
    assert escalation.due_step(139.9) is None
    assert escalation.due_step(140.0) == "signal"
    assert escalation.why == "", "a warned run has not been stopped"
    assert (escalation.due_step(141.0), escalation.next_due_at()) == (None, 160.0)
    assert escalation.due_step(160.0) == "term"


def test_a_signal_that_leads_by_more_than_the_limit_comes_at_once() -> None:
    assert StopEscalation(100.0, 60.0, 30.0, signal_lead_s=90.0).due_step(100.0) == "signal"


def test_a_run_that_is_being_stopped_gets_no_other_signal() -> None:
    escalation = StopEscalation(0.0, 60.0, 30.0, signal_lead_s=20.0)
    escalation.request_stop(30.0, "cancelled", 60.0)
    assert escalation.due_step(40.0) is None


def test_the_time_limit_of_a_suspended_run_does_not_run_on() -> None:
    escalation = StopEscalation(100.0, 60.0, 30.0, signal_lead_s=20.0)
    escalation.postpone(UNLIMITED_S)  # suspended at 110
    assert escalation.due_step(10_000.0) is None
    escalation.postpone(10_000.0 - 110.0 - UNLIMITED_S)
    assert escalation.due_step(10_029.0) is None
    assert escalation.due_step(10_030.0) == "signal"
    assert escalation.due_step(10_049.0) is None
    assert escalation.due_step(10_050.0) == "term"
