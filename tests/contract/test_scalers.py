"""Rules that every registered autoscaler keeps: bounds, no flapping, determinism."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import Autoscaler, Load, ScaleBounds, ScaleState, decide

SCALERS = sorted(registry.registered_plugins("weft.scalers"))
every_scaler = pytest.mark.parametrize("name", SCALERS)
QUIET_S = {"deficit": 20, "concurrency": 60, "lazy": 20, "kpa": 20, "fixed": 1000}
"""Seconds for which an autoscaler does not undo what it did."""


def replay(scaler: Autoscaler, bounds: ScaleBounds, seed: int, seconds: int = 400) -> list[tuple[float, int]]:
    """Drive an autoscaler with a load that jumps; replicas follow at once. Return the times and the numbers."""
    draws, state, replicas, found = random.Random(seed), ScaleState(scaler.begin()), bounds.min_replicas, []
    level = 50.0
    for second in range(1, seconds + 1):
        if draws.random() < 0.03:
            level = draws.choice([0.0, 5.0, 80.0, 400.0, 2000.0])
        arrivals = float(draws.randint(0, int(2 * level))) if level else 0.0
        queued = draws.randint(0, 50) if arrivals > 40 * max(replicas, 1) else 0
        load = Load(
            float(second), replicas, replicas, arrivals, min(arrivals / 10, 8.0 * replicas), queued, 8, 40.0, 40.0
        )
        state, wish = decide(scaler, state, load, bounds)
        replicas = wish.replicas
        found.append((float(second), replicas))
    return found


@every_scaler
@pytest.mark.parametrize(("least", "most"), [(1, 5), (2, 2), (0, 7), (3, 100)])
def test_the_number_stays_within_its_bounds(name: str, least: int, most: int) -> None:
    for seed in range(5):
        numbers = [number for _, number in replay(registry.load_scaler(name), ScaleBounds(least, most), seed)]
        assert all(least <= number <= most for number in numbers)


@every_scaler
def test_equal_loads_give_equal_numbers(name: str) -> None:
    one, other = (replay(registry.load_scaler(name), ScaleBounds(), 7) for _ in range(2))
    assert one == other


@every_scaler
def test_it_does_not_remove_what_it_has_just_added(name: str) -> None:
    for seed in range(5):
        numbers = replay(registry.load_scaler(name), ScaleBounds(1, 1000), seed)
        added = -1000.0
        for (_, before), (at, after) in pairwise(numbers):
            if after > before:
                added = at
            assert after >= before or at - added >= QUIET_S[name] - 1, f"{name} flaps at {at}"


@every_scaler
def test_the_reason_is_given(name: str) -> None:
    scaler = registry.load_scaler(name)
    _, wish = scaler.decide(scaler.begin(), Load(1.0, 1, 1, 10.0, 1.0, 0, 8, 40.0, 40.0))
    assert wish.why


@every_scaler
def test_options_out_of_range_are_refused(name: str) -> None:
    option = {"deficit": "target", "concurrency": "keep", "lazy": "in", "kpa": "utilization", "fixed": "replicas"}[name]
    with pytest.raises(Exception, match=f"{option}_? must be above 0, but is 0"):
        registry.load_scaler(f"{name}:{option}=0")


@every_scaler
def test_the_reference_explains_it(name: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "scalers.md"
    assert f"\n## {name}\n" in page.read_text()
