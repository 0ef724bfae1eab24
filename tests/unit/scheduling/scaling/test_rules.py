"""Each autoscaler on series made by hand, and scaling to zero."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.errors import InputError
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.capacity import MIN_SAMPLES, LearnedCapacity
from weft.scheduling.scaling.port import Autoscaler, Load, ScaleBounds, ScaleState, decide

ONE = ScaleBounds()


def wanted(
    spec: str,
    arrivals: Sequence[float],
    *,
    queued: int = 0,
    in_flight: float = 0.0,
    bounds: ScaleBounds = ONE,
    start: int = 1,
) -> list[int]:
    """Return the replicas after each second. Replicas hold 8 requests and do 40/s; they are ready at once."""
    scaler: Autoscaler = registry.load_scaler(spec)
    state, replicas, found = ScaleState(scaler.begin()), start, []
    for second, count in enumerate(arrivals, start=1):
        load = Load(float(second), replicas, replicas, count, in_flight, queued, 8, 40.0, 40.0)
        state, wish = decide(scaler, state, load, bounds)
        replicas = wish.replicas
        found.append(replicas)
    return found


def test_deficit_starts_the_whole_deficit_at_once() -> None:
    """240/s over one of three seconds is 80/s on average; 80 / (40 x 0.6) = 3.3. Then 160/s: 6.7, then 240/s: 10."""
    assert wanted("deficit", [0, 0, 240, 240, 240]) == [1, 1, 4, 7, 10]


def test_deficit_keeps_replicas_for_20_seconds() -> None:
    found = wanted("deficit", [240] * 3 + [0] * 30)
    assert found[2] == 10
    assert found.index(1, 3) == 2 + 2 + 20  # the mean falls below 10 replicas with the next second, and 20 pass


def test_deficit_keeps_replicas_for_the_mean_rate_of_three_minutes() -> None:
    """96/s wants 4 replicas. After 20 calm seconds, 9600 requests in 120 s are 80/s: 3 replicas at 0.8 of 40/s. After
    150 s the mean is 64/s: 2. With the window full, it is 32/s once 60 busy seconds are left in it, at 220 s: 1."""
    found = wanted("deficit", [96] * 100 + [0] * 150)
    assert [found.index(number, 100) + 1 for number in (4, 3, 2, 1)] == [101, 120, 150, 220]
    assert wanted("deficit:calm_target=1000", [96] * 100 + [0] * 150)[121] == 1


def test_deficit_drains_a_backlog_in_ten_seconds() -> None:
    """100/s needs 4.2 replicas. 408 queued are 400 more than one replica holds: (100 + 40) / 40 = 3.5, which is less;
    1608 queued: (100 + 160) / 40 = 6.5."""
    assert wanted("deficit", [100], queued=408) == [5]
    assert wanted("deficit", [100], queued=1608) == [7]


def test_lazy_adds_one_after_20_busy_seconds() -> None:
    found = wanted("lazy", [500] * 45)
    assert found[:20] == [1] * 19 + [2]
    assert found[39] == 3
    assert found[44] == 3


def test_lazy_removes_one_after_30_calm_seconds() -> None:
    found = wanted("lazy", [0] * 70, start=3)
    assert (found[28], found[29], found[58], found[59], found[69]) == (3, 2, 2, 1, 1)


def test_lazy_counts_only_seconds_in_the_window() -> None:
    assert wanted("lazy", ([500] + [30] * 2) * 20)[-1] == 1  # 14 of any 40 seconds are busy
    assert wanted("lazy:window=20:out=5:in=20", ([500] + [30] * 2) * 5)[-1] == 2


def test_concurrency_counts_requests_in_progress() -> None:
    assert wanted("concurrency", [1.0], in_flight=20.0, queued=5) == [4]  # 25 / 8
    assert wanted("concurrency:target=0.5", [1.0], in_flight=20.0, queued=5) == [7]


def test_kpa_panics_on_a_burst_and_is_calm_after_a_minute() -> None:
    found = wanted("kpa", [10.0] * 60 + [280.0] * 6 + [10.0] * 130)
    assert found[59] == 1
    assert max(found[60:66]) == 10  # 280 / (40 x 0.7)
    assert found[66 + 50] == 10
    assert found[-1] == 1


def test_fixed_is_fixed_within_bounds() -> None:
    assert wanted("fixed:replicas=4", [0, 1000]) == [4, 4]
    assert wanted("fixed:replicas=4", [0], bounds=ScaleBounds(1, 3)) == [3]


def test_the_last_replica_has_a_separate_delay() -> None:
    bounds = ScaleBounds(0, 10, to_zero_after_s=60.0)
    found = wanted("deficit", [10.0] * 5 + [0.0] * 80, bounds=bounds)
    assert found[:5] == [1] * 5
    assert found.index(0) == 5 + 60
    assert wanted("deficit", [0.0] * 70 + [1.0], bounds=bounds, start=0) == [0] * 70 + [1]


def test_a_queued_request_wakes_a_service_at_once() -> None:
    for spec in ("deficit", "concurrency", "lazy", "kpa"):
        assert wanted(spec, [0.0], queued=1, bounds=ScaleBounds(0, 10), start=0) == [1], spec


def test_bounds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="min_replicas 3 and max_replicas 2"):
        ScaleBounds(3, 2)


def test_capacity_is_declared_until_enough_saturated_seconds() -> None:
    capacity = LearnedCapacity()
    for second in range(MIN_SAMPLES):
        assert capacity.requests_per_s(48.0) == 48.0
        capacity = capacity.learn(240.0, 2, saturated=True)
        capacity = capacity.learn(10.0 * second, 2, saturated=False)
    assert capacity.requests_per_s(48.0) == 120.0


def test_an_unknown_scaler_is_named() -> None:
    with pytest.raises(InputError, match="unknown scaler 'defict'"):
        registry.load_scaler("defict")
    with pytest.raises(InputError, match="unknown option of deficit 'targets'"):
        registry.load_scaler("deficit:targets=1")
