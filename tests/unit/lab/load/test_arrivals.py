"""Shapes of load, times of requests, and the figures of a load test."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from weft.errors import InputError
from weft.lab.load.arrivals import draw_arrivals
from weft.lab.load.figures import FAILED, NOT_SENT, TIMED_OUT, Sent, by_second, describe, summarise
from weft.lab.load.shapes import SHAPES, make_shape


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_shape_stays_below_its_peak_and_is_the_same_for_a_seed(name: str) -> None:
    rates = make_shape(name, 50.0, 600, 7)
    assert len(rates) == 600
    assert all(0 <= rate <= 50.0 for rate in rates)
    assert max(rates) > 45.0
    assert rates == make_shape(name, 50.0, 600, 7)


def test_shapes_differ_in_how_much_of_the_time_is_calm() -> None:
    calm = {name: sum(rate < 12.5 for rate in make_shape(name, 50.0, 3000, 1)) / 3000 for name in SHAPES}
    assert calm["constant"] == 0
    assert calm["sporadic"] > 0.8 > calm["bursty"] > 0.4 > calm["periodic"] > 0.1


@pytest.mark.parametrize("variation", [0.0, 0.3, 1.0, 4.0])
def test_arrivals_have_the_rate_and_variation_asked_for(variation: float) -> None:
    times = draw_arrivals([50.0] * 400, variation, 3)
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= 400
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(0.02, rel=0.1)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(variation, abs=0.1 + variation * 0.15)


def test_arrivals_follow_rates_that_change_each_second() -> None:
    times = draw_arrivals([0.0, 100.0, 0.0, 300.0], 1.0, 5)
    assert not [at for at in times if at < 1 or 2 < at < 3]
    assert sum(1 <= at <= 2 for at in times) == pytest.approx(100, abs=40)


def test_too_many_requests_are_refused() -> None:
    with pytest.raises(InputError, match="requests"):
        draw_arrivals([1e7] * 10, 1.0, 1)
    with pytest.raises(InputError, match="variation"):
        draw_arrivals([1.0], 50.0, 1)


def test_figures_count_only_good_answers_as_latency() -> None:
    good = [Sent(at / 100, 0.01, at / 100, 200) for at in range(1, 101)]
    bad = [
        Sent(2.0, 0.0, 9.0, FAILED),
        Sent(2.0, 0.0, 9.0, TIMED_OUT),
        Sent(2.0, 0.0, 9.0, NOT_SENT),
        Sent(2, 1, 9, 503),
    ]
    found = summarise([*good, *bad], slo_s=0.9)
    assert (found.requests, found.ok, found.late) == (104, 100, 14)
    assert found.latency_s == {
        "mean": pytest.approx(0.505),
        "p50": 0.5,
        "p90": 0.9,
        "p95": 0.95,
        "p99": 0.99,
        "max": 1.0,
    }
    assert found.codes == {"200": 100, "503": 1, "failed": 1, "not sent": 1, "timed out": 1}
    assert describe([]) == {}


def test_figures_of_each_second() -> None:
    rows = by_second([Sent(0.1, 0, 0.2, 200), Sent(0.2, 0, 0.4, 200), Sent(2.5, 0, 1.0, 500)])
    assert rows == [(2, 0, 0.2, 0.4), (0, 0, 0.0, 0.0), (1, 1, 0.0, 0.0)]
