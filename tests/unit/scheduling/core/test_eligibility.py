"""Jobs with dependencies, and arrays with a limit of running tasks."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from support.builders import Rig, grid
from weft.model import Alarm, BatchLimited, Edited, Exited, GroupLimited, Job, Limited, Outcome, Purged, Task, Wake
from weft.scheduling.core.explain import explain
from weft.scheduling.core.state.apply.snapshots import snapshot


def reasons(rig: Rig, job: str) -> list[str]:
    return [reason.code for reason in explain(rig.scheduler, job).reasons]


def test_a_job_waits_until_all_it_comes_after_are_done() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b"), Job("c", after=("a", "b")))
    assert (rig.job("c").status, reasons(rig, "c")) == ("blocked", ["Dependency"])
    rig.exit("a")
    assert rig.job("c").status == "blocked"
    rig.exit("b")
    assert rig.job("c").status == "starting"


@pytest.mark.parametrize("how", ["failed", "stopped"])
def test_what_comes_after_a_job_that_is_not_done_is_cancelled_with_all_that_follows(how: Outcome) -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b", after=("a",)), Job("c", after=("b",)), Job("d"))
    if how == "stopped":
        rig.cancel("a")
    rig.exit("a", how)
    assert [(rig.job(x).status, rig.job(x).why) for x in "bc"] == [("cancelled", "dependency")] * 2
    assert rig.job("d").active


def test_a_job_that_comes_after_one_that_failed_before_is_cancelled_at_once() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"))
    rig.exit("a", "failed")
    rig.submit(Job("b", after=("a",)))
    assert (rig.job("b").status, rig.job("b").why) == ("cancelled", "dependency")


def test_a_retry_keeps_the_gate_shut() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a", retries=1), Job("b", after=("a",)))
    rig.exit("a", "failed")
    assert (rig.job("a").active, rig.job("b").status) == (True, "blocked")
    rig.exit("a")
    assert rig.job("b").active


def test_so_many_of_a_batch_go_at_once() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=2) for at in range(4)), Job("other"))
    assert set(rig.active) == {"t0", "t1", "other"}
    assert reasons(rig, "t2") == ["JobArrayTaskLimit"]
    rig.exit("t0", "failed")
    assert set(rig.active) == {"t1", "t2", "other"}
    rig.cancel("t3")
    rig.exit("t1")
    assert set(rig.active) == {"t2", "other"}


def test_a_held_task_takes_no_place_of_its_batch() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=2) for at in range(5)))
    assert [rig.job(f"t{at}").status for at in range(5)] == ["starting", "waiting", "blocked", "blocked", "blocked"]
    rig.hold("t1")
    rig.hold("t3")
    assert [rig.job(f"t{at}").status for at in range(5)] == ["starting", "held", "waiting", "held", "blocked"]
    assert reasons(rig, "t3") == ["JobHeldUser"]
    rig.release("t1")
    assert (rig.job("t1").status, reasons(rig, "t1")) == ("blocked", ["JobArrayTaskLimit"])
    rig.exit("t0")
    assert [rig.job(f"t{at}").status for at in range(1, 5)] == ["starting", "waiting", "held", "blocked"]


def test_a_run_of_a_batch_that_is_held_and_put_back_lets_the_next_go() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=1) for at in range(2)))
    rig.hold("t0")
    assert (rig.job("t0").status, rig.job("t1").status) == ("starting", "blocked")
    rig.exit("t0", "requeued")
    assert (rig.job("t0").status, rig.job("t1").status) == ("held", "starting")
    rig.release("t0")
    rig.exit("t1")
    assert rig.job("t0").status == "starting"


def test_a_large_batch_is_gone_through_quickly() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=1) for at in range(20_000)))
    began = process_time()
    for at in range(2_000):
        rig.cancel(f"t{19_999 - at}")
        rig.exit(f"t{at}")
    assert set(rig.active) == {"t2000"}
    assert process_time() - began < 10.0, "looking through all of it each time would take longer"


def test_an_edit_can_open_and_shut_a_gate() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"), Job("b"), Job("c", after=("b",)))
    rig.tell(Edited(0.0, Job("c")))
    assert rig.job("c").status == "waiting"
    rig.tell(Edited(0.0, Job("b", after=("a",), priority=3)))
    assert (rig.job("b").status, rig.job("b").job.priority) == ("blocked", 3)
    rig.exit("a")
    assert set(rig.active) == {"c"} or set(rig.active) == {"b"}


def test_a_held_job_stays_held_when_its_gate_opens() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(Job("a"), Job("b", after=("a",)))
    rig.hold("b")
    rig.exit("a")
    assert rig.job("b").status == "held"
    rig.release("b")
    assert rig.job("b").active


def test_a_job_that_comes_after_a_batch_waits_for_all_of_it() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("t_0", batch="t"), Job("t_1", batch="t"), Job("f", after=("t",)), Job("g", after=("t", "a")))
    rig.exit("t_0")
    assert (rig.job("f").status, reasons(rig, "f")) == ("blocked", ["Dependency"])
    rig.exit("t_1")
    assert (rig.job("f").status, rig.job("g").status) == ("starting", "starting")
    rig.submit(Job("h", after=("t",)))
    assert rig.job("h").status == "starting"


def test_what_comes_after_a_batch_is_cancelled_with_the_first_that_fails() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("t_0", batch="t"), Job("t_1", batch="t"), Job("f", after=("t", "t_0"), batch="f"))
    rig.submit(Job("g", after=("f",)))
    rig.exit("t_0", "failed")
    assert [(rig.job(x).status, rig.job(x).why) for x in "fg"] == [("cancelled", "dependency")] * 2
    rig.submit(Job("h", after=("t",)))
    assert rig.job("h").status == "cancelled"
    rig.exit("t_1")
    rig.tell(Purged(0.0, ("t_0",)))
    rig.submit(Job("i", after=("t",)))
    assert rig.job("i").status == "starting"


def test_a_job_does_not_come_after_its_own_batch() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("t_0", batch="t"), Job("t_1", batch="t", after=("t",)))
    assert rig.job("t_1").status == "starting"


def try_later(rig: Rig, job: str, delay_s: float) -> None:
    rig.tell(Exited(rig.now, job, rig.job(job).run, "requeued", code=75, delay_s=delay_s))


def test_a_job_that_asks_to_be_tried_later_waits_for_its_time() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"), Job("b"))
    try_later(rig, "a", 30.0)
    assert (rig.job("a").status, rig.alarm) == ("blocked", 30.0)
    assert set(rig.active) == {"b"}, "others have its GPU meanwhile"
    (why,) = explain(rig.scheduler, "a", at=10.0).reasons
    assert (why.code, why.text) == (
        "BeginTime",
        "run 1 ended with code 75; the next run starts no earlier than in 20 s",
    )
    rig.exit("b")
    assert not rig.active
    rig.now = 30.0
    rig.tell(Wake(30.0))
    assert (rig.job("a").status, rig.job("a").run, rig.alarm) == ("starting", 2, None)


def test_the_next_of_several_delays_sets_the_alarm() -> None:
    rig = Rig("fifo", grid(1, 3))
    rig.submit(Job("a"), Job("b"), Job("c"))
    for job, delay_s in (("a", 60.0), ("b", 20.0), ("c", 40.0)):
        try_later(rig, job, delay_s)
    assert rig.alarm == 20.0
    rig.cancel("b")
    assert rig.alarm == 40.0
    rig.now = 50.0
    rig.tell(Wake(50.0))
    assert (set(rig.active), rig.alarm) == ({"c"}, 60.0)
    rig.cancel("a")
    assert rig.alarm is None


def test_delays_are_counted_until_a_run_needs_none() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    for at in range(2):
        try_later(rig, "a", 1.0)
        rig.now += 1.0
        rig.tell(Wake(rig.now))
        assert rig.job("a").delays == at + 1
    rig.exit("a", "requeued")
    assert (rig.job("a").delays, rig.job("a").requeues, rig.job("a").active) == (0, 3, True)


def test_a_delayed_job_may_be_held_edited_and_keeps_its_place_in_its_batch() -> None:
    rig = Rig("fifo", grid(1, 4))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=1) for at in range(2)))
    try_later(rig, "t0", 5.0)
    assert rig.job("t1").status == "blocked", "what the first lacks the next would lack too"
    rig.hold("t0")
    rig.now = 5.0
    rig.tell(Wake(5.0))
    assert (rig.job("t0").status, rig.job("t1").status) == ("held", "starting")
    try_later(rig, "t1", 5.0)
    rig.tell(Edited(5.0, Job("t1", batch="t", batch_limit=1, priority=1)))
    assert rig.job("t1").active, "who changes a job wants it looked at"


def test_a_restart_keeps_the_delay() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    try_later(rig, "a", 30.0)
    for facts in (rig.facts, [*snapshot(rig.state), Alarm(rig.now, rig.alarm)]):
        again = rig.fresh()
        again.replay(facts)
        assert (again.state.jobs["a"].status, again.alarm) == ("blocked", 30.0)
        assert [type(each).__name__ for each in again.step(Wake(29.0))] == []
        assert [type(each).__name__ for each in again.step(Wake(30.0))] == ["Start", "Alarm"]


def test_a_job_waits_for_its_begin_time() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a", begin_at=30.0), Job("b"))
    assert (rig.job("a").status, set(rig.active), rig.alarm) == ("blocked", {"b"}, 30.0)
    (why,) = explain(rig.scheduler, "a", at=10.0).reasons
    assert (why.code, why.text) == ("BeginTime", "starts no earlier than in 20 s")
    rig.exit("b")
    rig.now = 30.0
    rig.tell(Wake(30.0))
    assert (rig.job("a").status, rig.alarm) == ("starting", None)


def test_a_begin_time_in_the_past_delays_nothing() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.now = 50.0
    rig.submit(Job("a", begin_at=30.0))
    assert rig.job("a").active


def test_after_its_begin_time_a_job_still_needs_its_dependency_and_a_place_in_its_batch() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("first"), *(Job(f"t{at}", batch="t", batch_limit=1, begin_at=9.0, after=("first",)) for at in "01"))
    rig.now = 9.0
    rig.tell(Wake(9.0))
    assert (rig.job("t0").status, reasons(rig, "t0")) == ("blocked", ["Dependency"])
    rig.exit("first")
    assert (rig.job("t0").active, rig.job("t1").status) == (True, "blocked")
    rig.exit("t0")
    assert rig.job("t1").active


def test_a_job_whose_dependency_failed_meanwhile_is_cancelled_at_its_begin_time() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b", after=("a",), begin_at=9.0))
    rig.exit("a", "failed")
    rig.now = 9.0
    rig.tell(Wake(9.0))
    assert (rig.job("b").status, rig.job("b").why) == ("cancelled", "dependency")


def test_a_job_held_before_its_begin_time_stays_held_after_it() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a", begin_at=9.0))
    rig.hold("a")
    rig.now = 9.0
    rig.tell(Wake(9.0))
    assert rig.job("a").status == "held"


def test_editing_a_job_moves_its_begin_time() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a", begin_at=9.0), Job("b", begin_at=9.0))
    rig.tell(Edited(1.0, Job("a", begin_at=20.0)), Edited(1.0, Job("b")))
    assert (rig.job("a").status, rig.job("b").active, rig.alarm) == ("blocked", True, 20.0)


def test_a_job_before_its_begin_time_counts_for_no_quota_and_survives_a_restart() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(Limited(0.0, "ann", 1))
    rig.submit(Job("a", user="ann", begin_at=9.0), Job("b", user="ann"))
    assert rig.job("b").active, "a job that may not begin yet leaves the quota to others"
    rig.tell(Limited(0.0, "ann", 1))
    for facts in (rig.facts, [*snapshot(rig.state), Alarm(rig.now, rig.alarm)]):
        again = rig.fresh()
        again.replay(facts)
        assert (again.state.jobs["a"].status, again.alarm) == ("blocked", 9.0)
        again.step(Wake(9.0))
        assert (again.state.jobs["a"].status, again.state.jobs["a"].over_quota) == ("blocked", True)
        again.step(Exited(10.0, "b", 1, "done"))
        assert again.state.jobs["a"].active


def test_a_users_jobs_hold_no_more_gpus_than_the_limit_and_keep_nobody_else_waiting() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(Limited(0.0, "", 4), Limited(0.0, "boss", 6))
    rig.submit(Job("a1", 3, user="a"), Job("a2", 2, user="a"), Job("a3", 1, user="a"), Job("b1", 2, user="boss"))
    assert set(rig.active) == {"a1", "a3", "b1"}
    reason = explain(rig.scheduler, "a2").reasons[0]
    assert (rig.job("a2").status, reason.code, "4 GPUs" in reason.text) == ("blocked", "Quota", True)
    rig.submit(Job("c", 0, user="a"), Job("a4", 2, user="a", priority=9))
    assert "c" in rig.active
    rig.exit("a1")
    assert set(rig.active) >= {"a3", "a4"}
    assert "a2" not in rig.active
    rig.tell(Limited(0.0, "", None))
    assert "a2" in rig.active


def test_a_limit_that_comes_late_stops_nobody_and_holds_back_those_who_wait() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(*(Job(f"a{at}", 1, user="a") for at in range(5)))
    rig.tell(Limited(0.0, "a", 1))
    assert {job.id: job.status for job in rig.state.jobs.values()} == {
        "a0": "starting", "a1": "starting", "a2": "blocked", "a3": "blocked", "a4": "blocked",
    }  # fmt: skip
    rig.exit("a0")
    assert set(rig.active) == {"a1"}
    rig.exit("a1")
    assert set(rig.active) == {"a2"}
    rig.cancel("a3")
    rig.exit("a2")
    assert set(rig.active) == {"a4"}


def grouped(id: str, group: str = "g", **rest: Any) -> Job:
    return Job(id, task=Task(group=group), **rest)


def test_a_group_runs_as_many_jobs_as_its_limit_allows() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(GroupLimited(0.0, "g", 2))
    rig.submit(*(grouped(name) for name in "abc"), grouped("x", "other"))
    assert set(rig.active) == {"a", "b", "x"}
    assert reasons(rig, "c") == ["GroupLimit"]
    rig.exit("a")
    assert set(rig.active) == {"b", "c", "x"}


def test_jobs_of_a_full_group_start_by_priority() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(GroupLimited(0.0, "g", 1))
    rig.submit(grouped("a"), grouped("b"), grouped("urgent", priority=5))
    rig.exit("a")
    assert set(rig.active) == {"urgent"}


def test_a_paused_group_starts_nothing_and_keeps_its_limit_for_later() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(grouped("a"))
    rig.tell(GroupLimited(0.0, "g", 2, paused=True))
    rig.submit(*(grouped(name) for name in "bcd"))
    assert set(rig.active) == {"a"}, "runs continue"
    assert reasons(rig, "b") == ["GroupPaused"]
    rig.exit("a")
    assert not rig.active
    rig.tell(GroupLimited(0.0, "g", 2))
    assert set(rig.active) == {"b", "c"}


def test_a_group_without_a_limit_again_lets_all_its_jobs_start() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(GroupLimited(0.0, "g", 1))
    rig.submit(*(grouped(name) for name in "abc"))
    rig.tell(GroupLimited(0.0, "g", None))
    assert set(rig.active) == {"a", "b", "c"}


def test_a_job_that_changes_its_group_gives_up_its_place() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.tell(GroupLimited(0.0, "g", 2))
    rig.submit(*(grouped(name) for name in "abc"))
    assert (rig.job("b").status, rig.job("c").status) == ("waiting", "blocked")
    rig.tell(Edited(0.0, grouped("b", "other")))
    assert (rig.job("b").status, rig.job("c").status) == ("waiting", "waiting")


def test_a_user_over_quota_takes_no_place_in_a_group() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(Limited(0.0, "u", 1), GroupLimited(0.0, "g", 2))
    rig.submit(*(grouped(name, user="u") for name in "ab"), grouped("c", user="v"))
    assert set(rig.active) == {"a", "c"}
    rig.exit("a")
    assert set(rig.active) == {"b", "c"}


def test_the_limits_of_groups_survive_a_snapshot() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.tell(GroupLimited(0.0, "g", 1), GroupLimited(0.0, "h", None, paused=True))
    rig.submit(grouped("a"), grouped("b"), grouped("c", "h"))
    again = Rig("fifo")
    again.scheduler.replay(snapshot(rig.state))
    assert again.state.eligibility.groups.settings == {"g": (1, False, ""), "h": (None, True, "")}
    again.exit("a")
    assert set(again.active) == {"b"}
    again.tell(GroupLimited(0.0, "h", None))
    assert set(again.active) == {"b", "c"}


def test_the_limit_of_a_batch_is_raised_lowered_and_removed() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(*(Job(f"t{at}", batch="t", batch_limit=2) for at in range(8)))
    rig.tell(BatchLimited(0.0, "t", 3))
    assert set(rig.active) == {"t0", "t1", "t2"}
    rig.tell(BatchLimited(0.0, "t", 1))
    assert set(rig.active) == {"t0", "t1", "t2"}, "runs continue"
    rig.exit("t0")
    rig.exit("t1")
    assert set(rig.active) == {"t2"}
    rig.exit("t2")
    assert set(rig.active) == {"t3"}
    assert rig.job("t7").job.batch_limit == 1
    rig.tell(BatchLimited(0.0, "t", 0))
    assert set(rig.active) == {"t3", "t4", "t5", "t6", "t7"}


def test_a_batch_without_a_limit_gets_one_that_counts_its_runs() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(*(Job(f"t{at}", batch="t") for at in range(5)))
    assert [rig.job(f"t{at}").status for at in range(5)] == ["starting"] * 2 + ["waiting"] * 3
    rig.tell(BatchLimited(0.0, "t", 3))
    assert [rig.job(f"t{at}").status for at in range(5)] == ["starting"] * 2 + ["waiting", "blocked", "blocked"]
    again = Rig("fifo")
    again.scheduler.replay(snapshot(rig.state))
    again.exit("t0")
    assert [again.job(f"t{at}").status for at in range(1, 5)] == ["starting", "starting", "waiting", "blocked"]


def test_a_batch_counts_how_its_jobs_ended() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(*(Job(f"t{at}", batch="t") for at in range(4)))
    rig.exit("t0")
    rig.exit("t1", "failed")
    rig.cancel("t2")
    rig.exit("t2", "stopped")
    assert rig.state.eligibility.ended_of("t") == (1, 1, 1)
    again = Rig("fifo")
    again.scheduler.replay(snapshot(rig.state))
    assert again.state.eligibility.ended_of("t") == (1, 1, 1)
    again.tell(Purged(0.0, ("t0", "t1", "t2")))
    assert again.state.eligibility.ended_of("t") == (0, 0, 0)


def test_a_job_may_wait_for_any_end_of_another() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b"), Job("c", after_any=("a", "b")))
    assert [reason.text for reason in explain(rig.scheduler, "c").reasons] == ["comes after the end of a, the end of b"]
    rig.exit("a", "failed")
    assert rig.job("c").status == "blocked"
    rig.exit("b")
    assert rig.job("c").active
    rig.submit(Job("late", after_any=("a",)))
    assert rig.job("late").active, "it has ended already"


def test_a_job_may_wait_for_a_failure_of_another() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b"), Job("clean", after_failed=("a",)), Job("never", after_failed=("b",)))
    rig.exit("a", "failed")
    assert rig.job("clean").active
    rig.exit("b")
    assert (rig.job("never").status, rig.job("never").why) == ("cancelled", "dependency")
    rig.submit(Job("late", after_failed=("a",)), Job("too late", after_failed=("b",)))
    assert (rig.job("late").active, rig.job("too late").status) == (True, "cancelled")


def test_conditions_are_of_a_whole_batch() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(*(Job(f"t{at}", batch="t") for at in range(3)))
    rig.submit(Job("any", after_any=("t",)), Job("bad", after_failed=("t",)), Job("ok", after=("t",)))
    rig.exit("t0", "failed")
    assert [rig.job(name).status for name in ("any", "bad", "ok")] == ["blocked", "blocked", "cancelled"]
    rig.exit("t1")
    rig.exit("t2")
    assert [rig.job(name).active for name in ("any", "bad")] == [True, True]
    rig.submit(*(Job(f"u{at}", batch="u") for at in range(2)), Job("worse", after_failed=("u",)))
    rig.exit("u0")
    rig.exit("u1")
    assert rig.job("worse").status == "cancelled"


def test_conditions_survive_a_snapshot() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b", after_any=("a",)), Job("c", after_failed=("a",)), Job("d", after=("a",)))
    again = Rig("fifo")
    again.scheduler.replay(snapshot(rig.state))
    again.exit("a", "failed")
    assert [again.job(name).status for name in "bcd"] == ["starting", "starting", "cancelled"]


def test_a_dependent_of_any_end_outlives_a_chain_that_is_cancelled() -> None:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a"), Job("b", after=("a",)), Job("c", after_any=("b",)))
    rig.exit("a", "failed")
    assert (rig.job("b").status, rig.job("c").active) == ("cancelled", True)
