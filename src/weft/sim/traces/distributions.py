"""The distributions of a generated trace: arrivals, durations, and mixes of kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from weft.errors import InputError
from weft.inputs.csv import shorten
from weft.inputs.quantities import parse_whole_or_none

DAY_S: Final = 86400.0
DAILY_SWING: Final = 0.8
"""The rate of arrivals is 1.8 times the mean at the busiest time of the day, and 0.2 times at the quietest."""
BURST_JOBS: Final = 20.0
"""Mean number of jobs in a burst."""
BURST_GAP_S: Final = 1.0


@dataclass(frozen=True)
class Durations:
    """`lognormal:MEDIAN:MEAN`, `exponential:MEAN` or `fixed:S`, rounded to tenths of a second, at least one second."""

    kind: str
    values: tuple[float, ...]

    def draw(self, draws: random.Random) -> float:
        return max(1.0, round(self._draw(draws), 1))

    def _draw(self, draws: random.Random) -> float:
        if self.kind == "fixed":
            return self.values[0]
        if self.kind == "exponential":
            return draws.expovariate(1 / self.values[0])
        median_s, mean_s = self.values  # of a log-normal, mean / median = exp(sigma² / 2)
        return draws.lognormvariate(math.log(median_s), math.sqrt(2 * math.log(mean_s / median_s)))


def lognormal(median_s: float, mean_s: float) -> Durations:
    if not 0 < median_s <= mean_s < math.inf:
        what = f"no log-normal has median {median_s} s and mean {mean_s} s"
        raise InputError(what, hint="expected 0 < median <= mean")
    return Durations("lognormal", (median_s, mean_s))


def durations(text: str) -> Durations:
    kind, *words = text.split(":")
    values = [_positive(word) for word in words]
    if kind == "lognormal" and len(values) == 2 and None not in values:
        return lognormal(values[0] or 0.0, values[1] or 0.0)
    if kind in ("exponential", "fixed") and len(values) == 1 and values[0] is not None:
        return Durations(kind, (values[0],))
    hint = "expected lognormal:MEDIAN:MEAN, exponential:MEAN or fixed:SECONDS, such as lognormal:1144:13136"
    raise InputError(f"no such durations: {shorten(text)}", hint=hint)


@dataclass(frozen=True)
class Arrivals:
    """`poisson`, `daily`, `burst`, or `gamma:CV` with CV as the coefficient of variation of the gaps."""

    kind: str = "poisson"
    cv: float = 1.0

    def gaps(self, per_s: float, draws: random.Random) -> Iterator[float]:
        """Yield the seconds from each job to the next, for a mean of `per_s` jobs per second."""
        if self.kind == "gamma":
            return self._gamma(per_s, draws)
        if self.kind == "daily":
            return _daily(per_s, draws)
        if self.kind == "burst":
            return _bursts(per_s, draws)
        return (draws.expovariate(per_s) for _ in repeat(None))

    def _gamma(self, per_s: float, draws: random.Random) -> Iterator[float]:
        shape = 1 / self.cv**2
        return (draws.gammavariate(shape, 1 / (shape * per_s)) for _ in repeat(None))


def arrivals(text: str) -> Arrivals:
    kind, colon, word = text.partition(":")
    if kind in ("poisson", "daily", "burst") and not colon:
        return Arrivals(kind)
    cv = _positive(word)
    if kind == "gamma" and cv is not None and 0.01 <= cv <= 100:
        return Arrivals(kind, cv)
    hint = "expected poisson, daily, burst, or gamma:CV with CV from 0.01 to 100, such as gamma:2"
    raise InputError(f"no such arrivals: {shorten(text)}", hint=hint)


def mix(text: str, what: str) -> dict[str, float]:
    """Parse weights such as `a=.5,b=.5`. They need not add up to 1."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, word = (piece.strip() for piece in part.partition("="))
        weight = _positive(word) if word != "0" else 0.0
        if not name or not equals or weight is None or name in found:
            hint = "expected NAME=WEIGHT,... with each name once, such as 1=.9,8=.1"
            raise InputError(f"bad {what} {shorten(text)}, at {shorten(part)}", hint=hint)
        found[name] = weight
    if not sum(found.values()):
        raise InputError(f"bad {what} {shorten(text)}: all weights are 0", hint="give at least one of them a weight")
    return found


def whole_mix(text: str, what: str, *, low: int, high: int) -> dict[int, float]:
    """Parse weights whose names are whole numbers."""
    found: dict[int, float] = {}
    for name, weight in mix(text, what).items():
        if (number := parse_whole_or_none(name, low, high)) is None:
            hint = f"expected whole numbers from {low:,} to {high:,}, such as {low}=.9"
            raise InputError(f"bad {what} {shorten(text)}, at {shorten(name)}", hint=hint)
        if number in found:
            raise InputError(f"bad {what} {shorten(text)}, at {shorten(name)}", hint="expected each number once")
        found[number] = weight
    return found


def _daily(per_s: float, draws: random.Random) -> Iterator[float]:
    """Yield the gaps of a Poisson process whose rate follows the day, with the peak at noon; by thinning."""
    now_s = last_s = 0.0
    peak = per_s * (1 + DAILY_SWING)
    while True:
        now_s += draws.expovariate(peak)
        rate = per_s * (1 - DAILY_SWING * math.cos(2 * math.pi * now_s / DAY_S))
        if draws.random() * peak < rate:
            yield now_s - last_s
            last_s = now_s


def _bursts(per_s: float, draws: random.Random) -> Iterator[float]:
    """Yield the gaps of bursts that begin as a Poisson process. The number of jobs in a burst is geometric."""
    while True:
        within_s = 0.0
        while draws.random() > 1 / BURST_JOBS:
            gap_s = min(BURST_GAP_S, 0.1 / per_s)
            within_s += gap_s
            yield gap_s
        yield max(draws.expovariate(per_s / BURST_JOBS) - within_s, 0.0)


def _positive(text: str) -> float | None:
    """Return the number if a trace can hold it."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 1e-9 <= value <= 1e12 else None
