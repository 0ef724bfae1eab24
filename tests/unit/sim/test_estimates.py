"""The durations that the scheduler knows."""

from __future__ import annotations

import math
from statistics import mean, median

import pytest

from weft.errors import InputError
from weft.model import Exited, Job, Profile, Progressed, Started
from weft.sim.faults.estimates import Learned, Noisy, make_estimates

PROFILE = Profile("bert", 2.0, 0.5, 1.0, 0.5)


def job(id: str, *, user: str = "ada", name: str = "bert-1", gpus: int = 1) -> Job:
    return Job(id, gpus, name=name, user=user, declared_s=100.0, iterations=50, profile=PROFILE)


def finish(learned: Learned, done: Job, took_s: float, *, rate: float = 1.0) -> None:
    learned.declare(done)
    learned.observe([Started(0.0, done.id, 1, rate)])
    learned.observe([Exited(took_s, done.id, 1, "done", 0.0)])


def told_s(learned: Learned, asked: Job) -> float | None:
    told = learned.declare(asked)
    assert told.iterations is None, "iterations would tell the work"
    return told.declared_s


def test_exact_tells_the_job_itself() -> None:
    exact = make_estimates("exact", 0)
    assert exact.declare(job("a")) is not None
    assert exact.declare(job("a")) == job("a")
    assert exact.remaining_s("a", 30.0, 70.0) == 70.0


def test_an_error_is_drawn_for_each_job_by_the_seed() -> None:
    first, again, other = Noisy(1, 0.5), Noisy(1, 0.5), Noisy(2, 0.5)
    jobs = [job(f"j{n}") for n in range(2000)]
    told = [first.declare(each).declared_s or 0.0 for each in jobs]
    assert told == [again.declare(each).declared_s for each in reversed(jobs)][::-1], "whatever was asked before"
    assert told != [other.declare(each).declared_s for each in jobs]
    assert median(told) == pytest.approx(100, rel=0.05)
    logs = [math.log(each / 100) for each in told]
    assert math.sqrt(mean(each**2 for each in logs)) == pytest.approx(0.5, rel=0.05)


def test_iterations_carry_the_same_error() -> None:
    told = Noisy(1, 0.5).declare(job("a"))
    assert told.declared_s is not None
    assert told.iterations == round(50 * told.declared_s / 100)


def test_what_is_left_is_the_estimate_less_what_is_done_and_never_nothing() -> None:
    noisy = Noisy(1, 0.5)
    told = noisy.declare(job("a"))
    assert told.iterations is not None
    length_s = told.iterations * 2.0
    assert noisy.remaining_s("a", 10.0, 90.0) == length_s - 10
    assert noisy.remaining_s("a", 10.0, 1.0) == length_s - 10, "the truth does not show"
    assert noisy.remaining_s("a", 1e6, 90.0) == 1.0


def test_no_error_is_the_truth() -> None:
    assert make_estimates("lognormal:0", 5).declare(job("a")) == job("a")


def test_nothing_is_known_before_anything_has_finished() -> None:
    learned = Learned()
    assert told_s(learned, job("a")) is None
    assert learned.remaining_s("a", 10.0, 90.0) is None
    learned.observe([Started(0.0, "a", 1), Exited(5.0, "a", 1, "failed"), Started(6.0, "a", 2)])
    assert told_s(learned, job("b")) is None


def test_the_closest_group_that_has_finished_counts() -> None:
    learned = Learned()
    finish(learned, job("1", user="bo", name="x", gpus=8), 1000.0)
    assert told_s(learned, job("2")) == 1000, "anybody at all"
    finish(learned, job("3", user="ada", name="y"), 400.0)
    assert told_s(learned, job("4")) == 400, "the same user"
    finish(learned, job("5", user="bo"), 80.0)
    assert told_s(learned, job("6")) == 80, "the same name"
    finish(learned, job("7", gpus=2), 60.0)
    assert told_s(learned, job("8")) == 60, "the same user and name"
    finish(learned, job("9"), 10.0)
    finish(learned, job("10"), 20.0)
    assert told_s(learned, job("11")) == 15, "the same user, name and GPUs: their mean"


def test_the_model_stands_in_for_a_name() -> None:
    learned = Learned()
    finish(learned, job("1", user="bo", name=""), 10.0)
    finish(learned, job("2", user="bo", name="other"), 90.0)
    assert told_s(learned, job("3", name="")) == 10


def test_solo_time_is_time_at_work_times_rate() -> None:
    """100 s loading, 10 s at 1, 20 s at half speed, a stop, and 5 s more: 25 s."""
    learned = Learned()
    learned.declare(job("1"))
    learned.observe([Started(100.0, "1", 1), Progressed(110.0, "1", 1, None, 0.5), Exited(130.0, "1", 1, "stopped")])
    learned.observe([Started(500.0, "1", 2), Exited(505.0, "1", 2, "done", 0.0)])
    assert told_s(learned, job("2")) == 25


@pytest.mark.parametrize(
    "kind", ["", "exactly", "lognormal", "lognormal:", "lognormal:x", "lognormal:-1", "lognormal:nan", "lognormal:11"]
)
def test_no_such_estimates(kind: str) -> None:
    with pytest.raises(InputError, match="unknown kind of estimates") as caught:
        make_estimates(kind, 0)
    assert "lognormal:SIGMA" in caught.value.hint
