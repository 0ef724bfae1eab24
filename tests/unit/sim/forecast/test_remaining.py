"""Remaining times: what they declare, what similar jobs took, and honest ignorance."""

from __future__ import annotations

import random

import pytest

from support.builders import Rig, node
from weft.model import Job, Task
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.job import JobState
from weft.sim.forecast.history import DRIFT_JOBS, MAX_FINISHED, History, learn
from weft.sim.forecast.remaining import ERA_JOBS, FOREVER_S, MIN_ATTAINED_S, MIN_DRIFTS, RemainingTimes, remaining_times

NOTHING = History()


def finished(job: Job, seconds: float, *, began: float = 0.0) -> JobState:
    """A job that ran once, from `began` on."""
    found = JobState(job, 1, began)
    found.first_start, found.ended_at, found.attained_s = began, began + seconds, seconds
    return found


def learned(*durations_s: float, user: str = "ada", name: str = "bert-1", gpus: int = 1) -> History:
    """Jobs one after the other."""
    history, at = History(), 0.0
    for seconds in durations_s:
        history.learn(finished(Job("0", gpus, name, user), seconds, began=at))
        at += seconds
    return history


def draws(times: RemainingTimes, job: JobState, count: int = 200) -> list[float]:
    chance = random.Random(0)
    return [times.draw([job], chance)[job.id] for _ in range(count)]


def test_a_declared_duration_counts_as_it_is() -> None:
    job = JobState(Job("1", declared_s=100.0), 1, 0.0)
    times = RemainingTimes(learned(5.0, user=""), 0.0)
    assert set(draws(times, job)) == {100.0}
    assert times.ground(job).basis == "declared"


def test_an_unknown_duration_is_drawn_from_similar_jobs() -> None:
    job = JobState(Job("1", 1, "bert-7", "ada"), 1, 0.0)
    times = RemainingTimes(learned(10.0, 20.0, 30.0), 0.0)
    assert set(draws(times, job)) == {10.0, 20.0, 30.0}
    assert times.ground(job) == ("similar", 3)


def test_jobs_of_all_users_count_where_the_user_has_none() -> None:
    job = JobState(Job("1", 1, "bert", "bo"), 1, 0.0)
    times = RemainingTimes(learned(10.0), 0.0)
    assert times.ground(job) == ("all", 1)
    assert set(draws(times, job)) == {10.0}


def test_few_similar_jobs_leave_a_part_to_wider_kinds() -> None:
    samples = learned(10.0)
    for _ in range(20):
        samples.learn(finished(Job("0", 1, "gpt", "ada"), 1000.0))
    found = draws(RemainingTimes(samples, 0.0), JobState(Job("1", 1, "bert", "ada"), 1, 0.0))
    assert {10.0, 1000.0} == set(found)
    assert 0.1 < found.count(1000.0) / len(found) < 0.9


def run_for(seconds: float, job: Job) -> JobState:
    rig = Rig(nodes=[node(gpus=1)])
    rig.submit(job)
    rig.settle()
    rig.later(seconds)
    return rig.job(job.id)


def test_a_run_is_drawn_from_the_durations_that_it_has_not_exceeded() -> None:
    job = run_for(15.0, Job("1", 1, "bert", "ada"))
    assert set(draws(RemainingTimes(learned(10.0, 20.0, 30.0), 15.0), job)) == {5.0, 15.0}


def test_a_run_that_outlasts_all_others_may_take_as_long_again() -> None:
    job = run_for(100.0, Job("1", 1, "bert", "ada"))
    found = sorted(draws(RemainingTimes(learned(10.0), 100.0), job))
    assert 70.0 < found[len(found) // 2] < 140.0
    assert found[-1] <= 4900.0


def test_nothing_is_known_before_a_job_has_finished() -> None:
    job = JobState(Job("1"), 1, 0.0)
    times = RemainingTimes(NOTHING, 0.0)
    assert set(draws(times, job)) == {FOREVER_S}
    assert times.ground(job).basis == "none"


def test_a_time_limit_bounds_what_is_learned_and_is_no_promise() -> None:
    limited = Job("1", 1, "bert", "ada", declared_s=60.0, task=Task(time_limit_s=60.0))
    job = JobState(limited, 1, 0.0)
    assert set(draws(RemainingTimes(learned(10.0, 500.0), 0.0), job)) == {10.0, 60.0}
    alone = RemainingTimes(NOTHING, 0.0)
    assert set(draws(alone, job)) == {60.0}
    assert alone.ground(job).basis == "limit"


def test_the_progress_of_a_run_counts_whatever_its_limit_is() -> None:
    rig = Rig(nodes=[node(gpus=1)])
    rig.submit(Job("1", 1, "bert", "ada", declared_s=7200.0, task=Task(time_limit_s=7200.0)))
    rig.settle()
    rig.later(30.0)
    rig.progress("1", 270.0)
    rig.later(10.0)
    again = rig.fresh()
    again.replay(list(snapshot(rig.state)))
    for job in (rig.job("1"), again.state.jobs["1"]):
        times = RemainingTimes(learned(50.0, 500.0), 40.0)
        assert set(draws(times, job)) == {260.0}
        assert times.ground(job).basis == "declared"


def test_an_overdue_run_is_not_about_to_end() -> None:
    job = run_for(100.0, Job("1", 1, declared_s=50.0))
    assert min(draws(RemainingTimes(NOTHING, 100.0), job)) >= 0.0
    assert RemainingTimes(NOTHING, 100.0).ground(job).basis == "none"


def test_a_suspended_run_does_not_end() -> None:
    job = run_for(1.0, Job("1", declared_s=50.0))
    job.suspended = True
    assert set(draws(RemainingTimes(NOTHING, 1.0), job)) == {FOREVER_S}


def test_only_jobs_that_are_done_teach() -> None:
    rig = Rig(nodes=[node(gpus=2)])
    rig.submit(Job("1", 1, "bert", "ada"), Job("2", 1, "bert", "ada"))
    rig.settle()
    rig.later(30.0)
    rig.exit("1")
    rig.exit("2", "failed")
    job = JobState(Job("3", 1, "bert", "ada"), 3, 30.0)
    assert RemainingTimes(learn(rig.state), 30.0).ground(job) == ("similar", 1)


def drawn_longer(history: History, *, run_began: float, now: float) -> float:
    """The part of draws for a new job that are longer than a run that goes on has lasted."""
    rig = Rig(nodes=[node(gpus=1)])
    rig.later(run_began)
    rig.submit(Job("1", 1, "bert", "ada"))
    rig.settle()
    rig.later(now - run_began)
    waiting = JobState(Job("2", 1, "bert", "ada"), 2, now)
    found = draws(RemainingTimes(history, now, [rig.job("1")]), waiting, 2000)
    return sum(seconds > now - run_began for seconds in found) / len(found)


def test_runs_that_go_on_count_as_longer_than_so_far() -> None:
    assert 0.3 < drawn_longer(learned(10.0, 10.0), run_began=0.0, now=500.0) < 0.4


@pytest.mark.parametrize(("run_began", "counts"), [(15.0, False), (45.0, True)])
def test_a_run_from_before_the_latest_jobs_counts_no_more(run_began: float, counts: bool) -> None:
    history = learned(*[10.0] * (MAX_FINISHED + 3))  # the first that is kept ended at 40 s
    assert (drawn_longer(history, run_began=run_began, now=5000.0) > 0) == counts


def test_jobs_that_began_before_the_latest_ones_count_no_more() -> None:
    history = learned(*[10.0] * MAX_FINISHED)
    history.learn(finished(Job("0", 1, "bert", "ada"), 10.0 * MAX_FINISHED))
    assert set(history.of(())) == {10.0}, "long jobs would count twice, when they start and when they end"


@pytest.mark.parametrize("jobs", [MAX_FINISHED - 1, MAX_FINISHED, 3 * MAX_FINISHED])
def test_jobs_that_ran_side_by_side_are_not_forgotten(jobs: int) -> None:
    """None of the latest began after the first of them had ended."""
    history = History()
    for at in range(jobs):
        history.learn(finished(Job("0", 1, "bert", "ada"), 3600.0 + at))
    job = JobState(Job("x", 1, "bert", "ada"), 1, 0.0)
    times = RemainingTimes(history, 5000.0)
    assert times.ground(job) == ("similar", min(jobs, MAX_FINISHED))
    assert all(3600.0 <= seconds <= 3600.0 + jobs for seconds in draws(times, job))


def test_a_job_that_was_preempted_counts_as_longer_than_it_ran() -> None:
    rig = Rig("priority:preempts=on", [node(gpus=1)])
    rig.submit(Job("1", 1, "bert", "ada"))
    rig.settle()
    rig.later(500.0)
    rig.submit(Job("2", 1, "bert", "ada", priority=1))
    rig.settle()
    assert rig.job("1").waits
    for at in range(2):
        rig.state.ended[f"x{at}"] = ended = finished(Job(f"x{at}", 1, "bert", "ada"), 10.0)
        ended.status = "done"
    found = draws(remaining_times(rig.state, rig.now), JobState(Job("3", 1, "bert", "ada"), 3, rig.now), 2000)
    assert 0.15 < sum(seconds > 500.0 for seconds in found) / len(found) < 0.35


def test_long_jobs_are_drawn_as_often_as_they_come() -> None:
    """One job begins each second; each tenth lasts 200 s, and most of the latest of these still run."""
    now, history, ends = 600.0, History(), list[tuple[float, float, float]]()
    rig = Rig(nodes=[node(gpus=100)])
    for at in range(600):
        seconds = 10.0 if at % 10 else 200.0
        if at + seconds <= now:
            ends.append((at + seconds, float(at), seconds))
        else:
            rig.later(at - rig.now)
            rig.submit(Job(str(at), 1, "bert", "ada"))
            rig.settle()
    for _, began, seconds in sorted(ends):
        history.learn(finished(Job("0", 1, "bert", "ada"), seconds, began=began))
    rig.later(now - rig.now)
    times = RemainingTimes(history, now, rig.state.active.values())
    found = draws(times, JobState(Job("x", 1, "bert", "ada"), 99, now), 2000)
    assert 0.08 < sum(seconds > 100.0 for seconds in found) / len(found) < 0.12


@pytest.mark.parametrize("declared", [0, 1, 3])
def test_durations_drift_as_far_as_earlier_ones_and_declared_ones_do_not(declared: int) -> None:
    """Blocks of jobs last for 1 s and for 5 s in turn. The more jobs declare their duration, the less they drift."""
    history = learned(*([1.0] * DRIFT_JOBS + [5.0] * DRIFT_JOBS) * MIN_DRIFTS)
    jobs = [JobState(Job("x", 1, "bert", "ada"), 1, 0.0)]
    jobs += [JobState(Job(str(at), declared_s=10.0), 2 + at, 0.0) for at in range(declared)]
    times, chance = RemainingTimes(history, 0.0), random.Random(0)
    times.draw(jobs, chance)
    assert times.drifts
    assert min(history.drifts) < 0.6 < 1.6 < max(history.drifts)
    assert {times.drift(chance) for _ in range(500)} == {1 + (each - 1) / (1 + declared) for each in history.drifts}


@pytest.mark.parametrize(("present", "most"), [(1, ERA_JOBS), (60, 60), (1000, 100)])
def test_a_sample_of_more_jobs_draws_from_a_longer_era(present: int, most: int) -> None:
    times = RemainingTimes(learned(*map(float, range(1, 201))), 0.0)
    jobs = [JobState(Job(str(at), 1, "bert", "ada"), at, 0.0) for at in range(present)]
    kinds = [len(set(times.draw(jobs, random.Random(seed)).values())) for seed in range(20)]
    assert max(kinds) <= most
    assert present == 1 or max(kinds) > most / 2


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_draws_the_same(seed: int) -> None:
    jobs = [JobState(Job(str(at), 1, "bert", "ada"), at, 0.0) for at in range(20)]
    times = RemainingTimes(learned(*map(float, range(1, 50))), 0.0)
    assert times.draw(jobs, random.Random(seed)) == times.draw(jobs, random.Random(seed))


@pytest.mark.parametrize(("ran_s", "known"), [(0.1, False), (MIN_ATTAINED_S, True)])
def test_a_young_job_without_any_history_is_of_unknown_length(ran_s: float, known: bool) -> None:
    rig = Rig("fifo", [node(gpus=1)])
    rig.submit(Job("1", 1))
    rig.settle()
    found = draws(RemainingTimes(NOTHING, rig.now + ran_s), rig.job("1"))
    assert (max(found) < FOREVER_S) == known
    assert known or set(found) == {FOREVER_S}
