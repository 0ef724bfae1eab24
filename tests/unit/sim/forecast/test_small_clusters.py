"""Forecasts of small clusters: quantiles, changes, services, and what is not known."""

from __future__ import annotations

import random
from math import inf

import pytest

from support.builders import Rig, node
from weft.errors import WeftError
from weft.history.metrics.figures import figures
from weft.model import Deployed, Job, Paused, Ready, Service, Share, Task
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.sim.forecast.arrivals import MIN_PAST, Arrivals
from weft.sim.forecast.branches import Branches
from weft.sim.forecast.history import DRIFT_JOBS
from weft.sim.forecast.present import simulate_from
from weft.sim.forecast.quantiles import Quantiles, Sampling, forecast, quantiles
from weft.sim.forecast.remaining import RemainingTimes
from weft.sim.forecast.whatif import Change, what_if

FEW = Sampling(samples=3)


def two_gpus(*jobs: Job, policy: str = "priority") -> Rig:
    """A node of two GPUs; the jobs come in this order."""
    rig = Rig(policy, [node(gpus=2)])
    for job in jobs:
        rig.submit(job)
        rig.settle()
    return rig


def test_quantiles_leave_out_no_sample_that_never_happens() -> None:
    assert quantiles([]) == Quantiles(None, None)
    assert quantiles([3.0, 1.0, 2.0]) == Quantiles(2.0, 3.0)
    assert quantiles([1.0, 2.0, inf]) == Quantiles(2.0, None)
    assert quantiles([1.0, inf, inf]) == Quantiles(None, None)
    assert quantiles([float(at) for at in range(30)]) == Quantiles(15.0, 27.0)


def test_jobs_start_when_those_ahead_end_as_they_report() -> None:
    limited = [Job(name, 2, "bert", "ada", declared_s=7200.0, task=Task(time_limit_s=7200.0)) for name in "12"]
    rig = two_gpus(*limited)
    rig.later(30.0)
    rig.progress("1", 270.0)
    found = forecast(rig.scheduler, rig.now, sampling=FEW).jobs
    assert found["1"].end == found["2"].start == Quantiles(300.0, 300.0)


def drifting(*jobs: Job, policy: str = "priority") -> Rig:
    """Two GPUs, on which jobs lasted for 1 s and for 50 s in turn: the next ones may last much longer than expected."""
    rig = two_gpus(policy=policy)
    for at in range(10 * DRIFT_JOBS):
        rig.submit(Job(f"x{at}", 2, "bert", "ada"))
        rig.settle()
        rig.later(50.0 if at // DRIFT_JOBS % 2 else 1.0)
        rig.exit(f"x{at}")
    rig.submit(*jobs)
    rig.settle()
    return rig


def learned_jobs(count: int) -> list[Job]:
    return [Job(f"w{at}", 2, "bert", "ada") for at in range(count)]


ALONE = Sampling(samples=30, arrivals=False)


def test_a_drift_of_all_jobs_changes_p90_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = drifting(*learned_jobs(20))
    drifted = forecast(rig.scheduler, rig.now, ALONE).jobs["w19"]
    monkeypatch.setattr(RemainingTimes, "drifts", False)
    plain = forecast(rig.scheduler, rig.now, ALONE).jobs["w19"]
    assert drifted.start.p50 == plain.start.p50
    assert drifted.end.p50 == plain.end.p50
    assert (drifted.start.p90 or 0) - rig.now > 1.2 * ((plain.start.p90 or 0) - rig.now)


def test_a_declared_duration_does_not_drift() -> None:
    rig = drifting(Job("a", 2, declared_s=1000.0), Job("b", 2, declared_s=10.0), *learned_jobs(9))
    found = forecast(rig.scheduler, rig.now, ALONE).jobs
    assert found["a"].end == Quantiles(rig.now + 1000.0, rig.now + 1000.0)
    start, end = found["b"].start, found["b"].end
    assert (end.p90 or 0) - (start.p90 or 0) == pytest.approx(10.0)


def test_an_end_drifts_no_further_than_the_time_limit() -> None:
    limited = Task(time_limit_s=60.0)
    rig = drifting(
        Job("a", 2, "bert", "ada", task=limited), Job("b", 2, "bert", "ada", task=limited), Job("c", 2, "bert", "ada")
    )
    found = forecast(rig.scheduler, rig.now, ALONE).jobs
    assert found["a"].end.p90 == rig.now + 60.0
    start, end = found["b"].start, found["b"].end
    assert start.p90 is not None
    assert end.p90 is not None
    assert end.p90 <= start.p90 + 60.0
    assert (found["c"].end.p90 or 0) > rig.now + 180.0, "nothing limits this one"


def test_a_job_that_is_preempted_may_end_after_its_time_limit() -> None:
    """The limit holds for each run."""
    short = Job("a", 2, "bert", "ada", task=Task(time_limit_s=60.0))
    rig = drifting(short, policy="priority:preempts=on")
    rig.submit(Job("b", 2, declared_s=1000.0, priority=1))
    rig.settle()
    assert (forecast(rig.scheduler, rig.now, ALONE).jobs["a"].end.p90 or 0) > rig.now + 1000.0


def test_declared_durations_give_one_future() -> None:
    rig = two_gpus(Job("a", 2, declared_s=100.0), Job("b", 2, declared_s=50.0), Job("c", 2, declared_s=1.0))
    rig.later(30.0)
    found = forecast(rig.scheduler, rig.now, FEW).jobs
    assert found["a"].end == Quantiles(100.0, 100.0)
    assert not found["a"].waits
    assert (found["b"].start, found["b"].end) == (Quantiles(100.0, 100.0), Quantiles(150.0, 150.0))
    assert found["c"].start == Quantiles(150.0, 150.0)
    assert rig.state.now == 0.0, "the forecast changed the state"
    assert rig.job("b").waits


def test_what_waits_for_an_unknown_run_has_no_estimate() -> None:
    rig = two_gpus(Job("a", 2), Job("b", 1, declared_s=5.0))
    found = forecast(rig.scheduler, rig.now, FEW)
    assert found.unknown == 1
    assert found.jobs["b"].start == Quantiles()
    assert found.jobs["a"].basis == "none"


def test_a_held_job_and_a_paused_scheduler_have_no_start() -> None:
    rig = two_gpus(Job("a", 2, declared_s=10.0), Job("b", 1, declared_s=5.0), Job("c", 1, declared_s=5.0))
    rig.hold("c")
    assert forecast(rig.scheduler, rig.now, FEW).jobs["c"].start == Quantiles()
    rig.tell(Paused(rig.now, "Paused", ""))
    assert forecast(rig.scheduler, rig.now, FEW).jobs["b"].start == Quantiles()


def test_a_dependent_job_starts_after_the_other() -> None:
    rig = two_gpus(Job("a", 1, declared_s=10.0), Job("b", 1, declared_s=5.0, after=("a",)))
    assert forecast(rig.scheduler, rig.now, FEW).jobs["b"].start == Quantiles(10.0, 10.0)


def test_replicas_keep_their_gpus_and_do_not_end() -> None:
    rig = Rig("priority", [node(gpus=2)])
    template = Job("", 1, share=Share(1.0, 1.0), command=("serve",))
    rig.tell(Deployed(0.0, Service("chat", template)))
    rig.settle()
    (replica,) = rig.state.active
    rig.tell(Ready(rig.now, replica, 1))
    rig.submit(Job("a", 1, declared_s=10.0), Job("b", 1, declared_s=5.0), Job("c", 2, declared_s=5.0))
    found = forecast(rig.scheduler, rig.now, FEW).jobs
    assert replica not in found
    assert found["b"].start == Quantiles(10.0, 10.0)
    assert found["c"].start == Quantiles()


def test_a_stopping_run_frees_its_gpus_at_once() -> None:
    rig = two_gpus(Job("a", 2, declared_s=100.0), Job("b", 2, declared_s=5.0))
    rig.cancel("a")
    assert rig.job("a").releasing
    assert forecast(rig.scheduler, rig.now, FEW).jobs["b"].start == Quantiles(0.0, 0.0)


def test_a_budget_makes_fewer_samples() -> None:
    rig = two_gpus(Job("a", 2, declared_s=100.0))
    assert forecast(rig.scheduler, 0.0, Sampling(samples=30, budget_s=0.0)).samples == 5


def test_a_branch_that_fails_is_one_error() -> None:
    def run() -> bytes:
        raise ValueError("no such GPU")

    with Branches() as branches, pytest.raises(WeftError, match="a forecast failed: ValueError: no such GPU"):
        branches.run(run)


# ---- what if


def waiting_rig() -> Rig:
    return two_gpus(
        Job("a", 2, user="ada", declared_s=100.0), Job("b", 2, user="bo", declared_s=50.0),
        Job("c", 2, user="chen", declared_s=10.0),
    )  # fmt: skip


def test_another_node_starts_the_first_job_at_once() -> None:
    rig = waiting_rig()
    found = what_if(rig.scheduler, 0.0, Change(add_nodes=(2,)), sampling=FEW)
    assert (found.waiting, found.before.average_s, found.after.average_s) == (2, 125.0, 25.0)
    assert (found.before.p90_s, found.after.p90_s) == (150.0, 50.0)
    assert [(each.user, each.before_s, each.after_s) for each in found.users] == [("bo", 100, 0), ("chen", 150, 50)]
    assert {each.job for each in found.gain} == {"b", "c"}
    assert found.lose == ()
    assert set(rig.state.resources.by_id) == {"n0"}, "the node joined the real cluster"


def test_a_cancelled_job_counts_in_neither() -> None:
    found = what_if(waiting_rig().scheduler, 0.0, Change(cancel=("b", "gone")), sampling=FEW)
    assert (found.waiting, found.before.average_s, found.after.average_s) == (1, 150.0, 100.0)


def test_a_priority_lets_one_gain_and_another_lose() -> None:
    found = what_if(waiting_rig().scheduler, 0.0, Change(priorities={"c": 10}), sampling=FEW)
    assert [(each.job, each.before_s, each.after_s) for each in found.gain] == [("c", 150.0, 100.0)]
    assert [(each.job, each.before_s, each.after_s) for each in found.lose] == [("b", 100.0, 110.0)]


def test_a_held_job_does_not_wait() -> None:
    rig = waiting_rig()
    rig.hold("c")
    found = what_if(rig.scheduler, 0.0, Change(add_nodes=(2,)), sampling=FEW)
    assert (found.waiting, found.before.unknown, [each.user for each in found.users]) == (1, 0, ["bo"])


def test_another_policy_runs_over_the_same_times() -> None:
    rig = waiting_rig()
    other = Rig("sjf")
    other.scheduler.replay(rig.facts)
    found = what_if(rig.scheduler, 0.0, Change("sjf"), changed=other.scheduler, sampling=FEW)
    assert found.after.average_s == pytest.approx((100.0 + 110.0) / 2)


# ---- arrivals, and simulations from the present


def test_the_recent_past_repeats_with_its_durations() -> None:
    import random

    rig = Rig("fifo", [node(gpus=1)])
    for at in range(MIN_PAST):
        rig.submit(Job(str(at), 1, user="ada"))
        rig.settle()
        rig.later(7.0)
        rig.exit(str(at))
        rig.later(3.0)
    later = Arrivals(rig.state, rig.now).draw(random.Random(0))
    assert len(later) == MIN_PAST
    assert [each.submit_s for each in later] == sorted(each.submit_s for each in later)
    assert later[0].submit_s >= rig.now
    assert {each.work_s for each in later} == {7.0}
    assert not {each.job.id for each in later} & set(rig.state.jobs)
    rig.submit(Job("x", 1, declared_s=5.0))
    assert forecast(rig.scheduler, rig.now, FEW).jobs["x"].end.p50 is not None


@pytest.mark.parametrize(("policy", "later"), [("fifo", False), ("sjf", True)])
def test_short_arrivals_delay_a_long_job_where_they_may_pass_it(policy: str, later: bool) -> None:
    rig = Rig(policy, [node(gpus=1)])
    for at in range(MIN_PAST):
        rig.submit(Job(str(at), 1, user="ada", declared_s=9.0))
        rig.settle()
        rig.later(9.0)
        rig.exit(str(at))
        rig.later(1.0)
    for name, length_s in (("run", 60.0), ("long", 500.0)):
        rig.submit(Job(name, 1, user="bo", declared_s=length_s))
        rig.settle()
    alone = forecast(rig.scheduler, rig.now, Sampling(samples=4, arrivals=False)).jobs["long"].start.p50
    found = forecast(rig.scheduler, rig.now, Sampling(samples=4)).jobs["long"].start.p50
    assert alone is not None
    assert found is not None
    assert (found > alone) == later


def test_a_short_past_says_nothing_about_arrivals() -> None:
    assert Arrivals(waiting_rig().state, 1.0).draw(random.Random(0)) == []


def test_a_simulation_starts_from_a_snapshot_of_the_present() -> None:
    rig = waiting_rig()
    found = simulate_from(snapshot(rig.state), "priority")
    assert [(each.id, each.end) for each in found.record.jobs] == [("a", 100.0), ("b", 150.0), ("c", 160.0)]
    assert found.gpus == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_simulation_from_the_present_counts_gpus_from_then_on(seed: int) -> None:
    choose = random.Random(seed)
    rig = Rig("priority", [node(gpus=4)])
    for number in range(12):
        rig.submit(Job(str(number), choose.choice((1, 2, 4)), declared_s=50.0, priority=choose.randrange(3)))
        rig.settle()
        rig.later(choose.uniform(1.0, 40.0))
        if rig.active and choose.random() < 0.6:
            rig.exit(choose.choice(sorted(rig.active)))
    busy = simulate_from([*rig.facts], "priority", now=rig.now + 5.0)
    share = figures(busy.record).gpu_utilisation
    assert share is None or 0 < share <= 1.0 + 1e-9
