"""Forecasts corrected by the outcomes of earlier ones."""

from __future__ import annotations

import json

import pytest

from support.builders import Rig, node
from weft.model import Job
from weft.sim.forecast.calibration import MAX_NEW, MAX_OUTCOMES, MAX_PENDING, MIN_OUTCOMES, Calibration
from weft.sim.forecast.quantiles import Forecast, JobForecast, Quantiles

P50_S, P90_S = 100.0, 300.0


def forecast_of(*jobs: str, at: float = 0.0) -> Forecast:
    """A forecast in which the jobs start after 100 s (P50) or 300 s (P90), and run for 50 s."""
    start, end = Quantiles(at + P50_S, at + P90_S), Quantiles(at + P50_S + 50, at + P90_S + 50)
    return Forecast(at, 30, {job: JobForecast(job, "ada", True, start, end, "all") for job in jobs}, 0)


def learned(waits_s: list[float]) -> tuple[Calibration, float]:
    """A calibration with a forecast for each of these waits, made at once; and the time when all have started."""
    rig, calibration = Rig("fifo", [node(gpus=1)]), Calibration()
    for at, wait_s in enumerate(waits_s):
        rig.submit(Job(f"run-{at}", 1))
        rig.settle()
        rig.submit(Job(str(at), 1))
        calibration.expect(forecast_of(str(at), at=rig.now))
        rig.later(wait_s)
        rig.exit(f"run-{at}")
        rig.settle()
        calibration.learn(rig.state)
        rig.exit(str(at))
    return calibration, rig.now


def starts(calibration: Calibration, at: float) -> tuple[float, float]:
    found = calibration.correct(forecast_of("x", at=at)).jobs["x"]
    assert found.start.p50 is not None
    assert found.start.p90 is not None
    assert (found.end.p50, found.end.p90) == (found.start.p50 + 50, found.start.p90 + 50)
    return found.start.p50 - at, found.start.p90 - at


def test_few_outcomes_correct_nothing() -> None:
    calibration, now = learned([1000.0] * (MIN_OUTCOMES - 1))
    assert starts(calibration, now) == (P50_S, P90_S)


def test_jobs_that_waited_longer_make_the_p90_longer() -> None:
    calibration, now = learned([200.0] * 5 + [600.0] * 5)
    assert starts(calibration, now) == pytest.approx((P50_S, 600.0))


def test_the_p90_is_never_before_the_median() -> None:
    calibration, now = learned([20.0] * MIN_OUTCOMES)
    assert starts(calibration, now) == pytest.approx((P50_S, P50_S))


def test_jobs_that_waited_as_expected_change_little() -> None:
    calibration, now = learned([50.0, 90.0, 90.0, 100.0, 100.0, 100.0, 110.0, 110.0, 300.0])
    assert starts(calibration, now) == (P50_S, P90_S)
    calibration, now = learned([50.0, 90.0, 90.0, 100.0, 100.0, 100.0, 110.0, 110.0, 120.0, 300.0])
    assert starts(calibration, now) == pytest.approx((100.0, 300.0))


def test_a_job_that_is_overdue_counts_before_it_starts() -> None:
    calibration, now = learned([100.0] * MIN_OUTCOMES)
    assert starts(calibration, now) == pytest.approx((100.0, 100.0))
    calibration.expect(forecast_of("late", "later", at=now))
    assert starts(calibration, now + 3000.0)[1] == pytest.approx(3000.0)


def test_a_cancelled_job_has_no_outcome() -> None:
    rig, calibration = Rig("fifo", [node(gpus=1)]), Calibration()
    rig.submit(Job("a", 1), Job("b", 1))
    calibration.expect(forecast_of("b", "gone"))
    rig.cancel("b")
    calibration.learn(rig.state)
    assert calibration.record() == {"pending": {}, "outcomes": []}


def test_it_stays_small_and_survives_as_json() -> None:
    calibration, now = learned([50.0] * (MAX_OUTCOMES + 5))
    for at in range(MAX_PENDING):
        calibration.expect(forecast_of(*(f"{at}-{job}" for job in range(30)), at=now))
    found = calibration.record()
    assert (len(found["pending"]), len(found["outcomes"])) == (MAX_PENDING, MAX_OUTCOMES)
    again = Calibration.of(json.loads(json.dumps(found)))
    assert again.correct(forecast_of("x", at=now)) == calibration.correct(forecast_of("x", at=now))
    few = Calibration()
    few.expect(forecast_of(*map(str, range(1000))))
    assert len(few.record()["pending"]) <= MAX_NEW


def test_a_later_job_of_the_same_id_is_no_outcome() -> None:
    rig, calibration = Rig("fifo", [node(gpus=1)]), Calibration()
    calibration.expect(forecast_of("1", at=10.0))
    rig.later(500.0)
    rig.submit(Job("1", 1))
    rig.settle()
    calibration.learn(rig.state)
    assert calibration.record() == {"pending": {}, "outcomes": []}
