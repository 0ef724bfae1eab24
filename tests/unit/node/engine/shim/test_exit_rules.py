"""The outcome of each kind of exit for the scheduler."""

from __future__ import annotations

import pytest

from weft.node.engine.events import RunExited
from weft.node.engine.exit_rules import MAX_QUICK_REQUEUES, MAX_TRY_LATER, exit_event


@pytest.mark.parametrize(
    ("code", "signal", "why", "done", "how", "shown", "because"),
    [
        (0, None, "", False, "done", 0, ""),
        (1, None, "", False, "failed", 1, ""),
        (None, 11, "", False, "failed", 139, ""),
        (85, None, "", False, "requeued", 85, ""),
        (75, None, "", False, "requeued", 75, ""),
        (42, None, "", False, "requeued", 42, ""),
        (1, None, "oom", False, "failed", 1, "oom"),
        (42, None, "oom", False, "failed", 42, "oom"),
        (85, None, "oom", False, "requeued", 85, "oom"),
        (0, None, "preempted", False, "stopped", 0, "preempted"),
        (0, None, "preempted", True, "done", 0, ""),
        (1, None, "preempted", True, "stopped", 1, "preempted"),
        (85, None, "preempted", False, "stopped", 85, "preempted"),
        (None, 9, "preempted", False, "stopped", 137, "preempted"),
        (0, None, "moved", False, "stopped", 0, "moved"),
        (None, 15, "cancelled", False, "stopped", 143, "cancelled"),
        (None, None, "cancelled", False, "stopped", None, "cancelled"),
        (None, 15, "timeout", False, "failed", 143, "timeout"),
        (0, None, "timeout", False, "failed", 0, "timeout"),
        (0, None, "timeout", True, "done", 0, ""),
        (85, None, "timeout", False, "requeued", 85, "timeout"),
        (42, None, "timeout", False, "requeued", 42, "timeout"),
        (None, 9, "saved-at-limit", False, "requeued", 137, "saved-at-limit"),
        (0, None, "saved-at-limit", True, "done", 0, ""),
        (127, None, "not-found", False, "failed", 127, "not-found"),
        (126, None, "bad-directory", False, "failed", 126, "bad-directory"),
        (None, None, "disk-full", False, "lost", None, "disk-full"),
        (None, None, "lost", False, "lost", None, "lost"),
        (None, None, "reboot", False, "lost", None, "reboot"),
        (None, None, "never-started", False, "lost", None, "never-started"),
        (None, None, "port-taken", False, "lost", None, "port-taken"),
        (None, 15, "lease-ended", False, "lost", 143, "lease-ended"),
        (85, None, "lease-ended", False, "lost", 85, "lease-ended"),
        (0, None, "lease-ended", True, "done", 0, ""),
    ],
)
def test_table(
    code: int | None, signal: int | None, why: str, done: bool, how: str, shown: int | None, because: str
) -> None:
    fact = exit_event(RunExited(5.0, "a", 3, code, signal, why, done=done), requeue_exits=(42,))
    assert (fact.at, fact.job, fact.run) == (5.0, "a", 3)
    assert (fact.how, fact.code, fact.why) == (how, shown, because)


def test_trying_later_has_an_end() -> None:
    report = RunExited(0.0, "a", 1, code=75)
    assert exit_event(report, tries=MAX_TRY_LATER - 1).how == "requeued"
    last = exit_event(report, tries=MAX_TRY_LATER)
    assert (last.how, last.why) == ("failed", "try-later")
    assert exit_event(report, tries=MAX_TRY_LATER, requeue_exits=(75,)).how == "requeued"


@pytest.mark.parametrize(
    ("code", "ran_s", "delays"),
    [(75, 3600.0, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0]), (85, 0.5, [1.0, 2.0, 4.0]),
     (42, 0.5, [1.0, 2.0, 4.0]), (85, 5.0, [0.0, 0.0, 0.0]), (42, 5.0, [0.0, 0.0, 0.0]), (1, 0.5, [0.0, 0.0, 0.0])],
)  # fmt: skip
def test_the_next_try_waits_longer_each_time(code: int, ran_s: float, delays: list[float]) -> None:
    report = RunExited(0.0, "a", 1, code=code, ran_s=ran_s)
    found = [exit_event(report, requeue_exits=(42,), tries=tries).delay_s for tries in range(len(delays))]
    assert found == delays


def test_a_job_that_kills_its_shim_each_time_waits_longer_for_each_run() -> None:
    report = RunExited(0.0, "a", 1, why="lost", ran_s=5.0)
    found = [exit_event(report, tries=tries) for tries in (0, 1, 2, 40)]
    assert [(fact.how, fact.delay_s) for fact in found] == [
        ("lost", 1.0),
        ("lost", 2.0),
        ("lost", 4.0),
        ("lost", 300.0),
    ]


@pytest.mark.parametrize("code", [42, 75, 85])
def test_being_run_again_at_once_has_an_end(code: int) -> None:
    report = RunExited(0.0, "a", 1, code=code, ran_s=0.1)
    assert exit_event(report, tries=MAX_QUICK_REQUEUES - 1, requeue_exits=(42, 75)).how == "requeued"
    last = exit_event(report, tries=MAX_QUICK_REQUEUES, requeue_exits=(42, 75))
    assert (last.how, last.why, last.delay_s) == ("failed", "requeue-loop", 0.0)
    assert exit_event(RunExited(0.0, "a", 1, code=85, ran_s=60.0), tries=MAX_QUICK_REQUEUES).how == "requeued"
