"""Remaining times: what they declare, what similar jobs took, and honest ignorance."""

from __future__ import annotations

import random

import pytest

from support.builders import Rig, node
from weft.core.state.durations import MAX_SAMPLES, DurationSamples
from weft.core.state.job import JobState
from weft.forecast.remaining import ERA_JOBS, FOREVER_S, RemainingTimes, learn
from weft.model import Job, Task

NOBODY = DurationSamples()


def learned(*durations_s: float, user: str = "ada", name: str = "bert-1", gpus: int = 1) -> DurationSamples:
    samples = DurationSamples()
    for seconds in durations_s:
        samples.learn(Job("0", gpus, name, user), seconds)
    return samples


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
        samples.learn(Job("0", 1, "gpt", "ada"), 1000.0)
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
    times = RemainingTimes(NOBODY, 0.0)
    assert set(draws(times, job)) == {FOREVER_S}
    assert times.ground(job).basis == "none"


def test_a_time_limit_bounds_what_is_learned_and_is_no_promise() -> None:
    limited = Job("1", 1, "bert", "ada", declared_s=60.0, task=Task(time_limit_s=60.0))
    job = JobState(limited, 1, 0.0)
    assert set(draws(RemainingTimes(learned(10.0, 500.0), 0.0), job)) == {10.0, 60.0}
    alone = RemainingTimes(NOBODY, 0.0)
    assert set(draws(alone, job)) == {60.0}
    assert alone.ground(job).basis == "limit"


def test_an_overdue_run_is_not_about_to_end() -> None:
    job = run_for(100.0, Job("1", 1, declared_s=50.0))
    assert min(draws(RemainingTimes(NOBODY, 100.0), job)) >= 0.0
    assert RemainingTimes(NOBODY, 100.0).ground(job).basis == "none"


def test_a_suspended_run_does_not_end() -> None:
    job = run_for(1.0, Job("1", declared_s=50.0))
    job.suspended = True
    assert set(draws(RemainingTimes(NOBODY, 1.0), job)) == {FOREVER_S}


def test_only_jobs_that_are_done_teach() -> None:
    rig = Rig(nodes=[node(gpus=2)])
    rig.submit(Job("1", 1, "bert", "ada"), Job("2", 1, "bert", "ada"))
    rig.settle()
    rig.later(30.0)
    rig.exit("1")
    rig.exit("2", "failed")
    job = JobState(Job("3", 1, "bert", "ada"), 3, 30.0)
    assert RemainingTimes(learn(rig.state), 30.0).ground(job) == ("similar", 1)


@pytest.mark.parametrize(("finished", "counts"), [(MAX_SAMPLES - 1, True), (MAX_SAMPLES, False)])
def test_runs_count_until_only_the_latest_durations_are_kept(finished: int, counts: bool) -> None:
    run = run_for(500.0, Job("1", 1, "bert", "ada"))
    waiting = JobState(Job("2", 1, "bert", "ada"), 2, 500.0)
    times = RemainingTimes(learned(*[10.0] * finished), 500.0, [run])
    assert any(seconds > 500.0 for seconds in draws(times, waiting, 2000)) == counts


def test_long_jobs_are_drawn_as_often_as_they_come() -> None:
    chance = random.Random(5)
    samples = learned(*[10_000.0 if chance.random() < 0.1 else 10.0 for _ in range(2 * MAX_SAMPLES)])
    runs = [run_for(5000.0, Job(str(at), 1, "bert", "ada")) for at in range(30)]  # only long jobs go on for so long
    times = RemainingTimes(samples, 5000.0, runs)
    found = draws(times, JobState(Job("x", 1, "bert", "ada"), 99, 5000.0), 2000)
    assert 0.06 < sum(seconds > 100.0 for seconds in found) / len(found) < 0.14


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
