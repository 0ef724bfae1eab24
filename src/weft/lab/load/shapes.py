"""Shapes of load: requests per second, second by second, made from a name, a peak and a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import cos, pi
from typing import Final

BASE: Final = 0.15
"""The least rate of bursty and periodic load, as a part of the peak."""
PERIOD_S: Final = 60


def make_shape(name: str, peak: float, seconds: int, seed: int) -> list[float]:
    """Return the rate in each second. The highest possible rate is `peak`."""
    return SHAPES[name](peak, seconds, random.Random(seed))


def _constant(peak: float, seconds: int, _draw: random.Random) -> list[float]:
    return [peak] * seconds


def _ramp(peak: float, seconds: int, _draw: random.Random) -> list[float]:
    return [peak * (at + 1) / seconds for at in range(seconds)]


def _periodic(peak: float, seconds: int, draw: random.Random) -> list[float]:
    """Return waves with a period of a minute, and some noise."""
    found = []
    for at in range(seconds):
        wave = (1 - cos(2 * pi * at / PERIOD_S)) / 2
        found.append(peak * min(1.0, (BASE + (1 - BASE) * wave) * draw.uniform(0.9, 1.1)))
    return found


def _bursty(peak: float, seconds: int, draw: random.Random) -> list[float]:
    """Return a low rate with bursts of 5 to 20 s, about two a minute, each up to the peak."""
    found: list[float] = []
    while len(found) < seconds:
        calm_s, burst_s = draw.randint(10, 30), draw.randint(5, 20)
        height = peak * draw.uniform(0.6, 1.0)
        found += [peak * BASE * draw.uniform(0.7, 1.3) for _ in range(calm_s)]
        found += [height * draw.uniform(0.9, 1.0) for _ in range(burst_s)]
    return found[:seconds]


def _sporadic(peak: float, seconds: int, draw: random.Random) -> list[float]:
    """Return silence with short peaks of 1 to 3 s, about four a minute."""
    found: list[float] = []
    while len(found) < seconds:
        found += [0.0] * draw.randint(5, 25)
        found += [peak * draw.uniform(0.3, 1.0) for _ in range(draw.randint(1, 3))]
    return found[:seconds]


SHAPES: Final[dict[str, Callable[[float, int, random.Random], list[float]]]] = {
    "constant": _constant,
    "ramp": _ramp,
    "periodic": _periodic,
    "bursty": _bursty,
    "sporadic": _sporadic,
}
