"""The samples of one forecast. With a long queue, only a few of them run with later arrivals.

Arrivals take most of the time of a sample, and concern few of the present jobs. So the first samples run both with and
without them. What arrivals delay a job there delays it in the other samples as well.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Final, Protocol

from weft.model import Seconds
from weft.sim.forecast.branches import Branches

MIN_SAMPLES: Final = 5
"""Samples that are made whatever they take."""
PROBES: Final = 2
"""The samples of a short queue that show whether arrivals matter at all: they run both ways."""
PAIRED_JOBS: Final = 1500
"""The jobs that run both ways, over all samples; at least those of one sample do."""

Times = Sequence[float]
"""The start and the end of each present job, in turn; infinite: never."""


class Run(Protocol):
    """Runs one sample forward."""

    def __call__(self, number: int, *, arrive: bool) -> Times: ...


def run_samples(
    run: Run, count: int, jobs: int, now: Seconds, *, may_arrive: bool, budget_s: float = math.inf
) -> list[Times]:
    """Return the times of the jobs in each sample; fewer samples if they take more CPU seconds than the budget."""
    found, delays = list[Times](), list[list[float]]()
    pairs = max(PAIRED_JOBS // max(jobs, 1), 1)
    all_arrive = 2 * pairs >= count
    pairs = PROBES if all_arrive else pairs
    with Branches() as branches:

        def sample(number: int, *, arrive: bool = False) -> Times:
            return array("d", branches.run(lambda: array("d", run(number, arrive=arrive)).tobytes()))

        for number in range(count):
            if number >= MIN_SAMPLES and branches.cpu_s > budget_s:
                break
            if not may_arrive:
                found.append(sample(number))
            elif number < pairs:
                plain, later = sample(number), sample(number, arrive=True)
                found.append(later)
                delays.append([_delay(*each) for each in zip(plain, later, strict=True)])
                if number == min(PROBES, pairs) - 1:
                    may_arrive = any(any(some) for some in delays)
            elif all_arrive:
                found.append(sample(number, arrive=True))
            else:
                found.append(_delayed(sample(number), delays[number % pairs], now))
    return found


def _delayed(times: Times, delays: Sequence[float], now: Seconds) -> Times:
    """Return the times with the delays of another sample. A job that starts at once is delayed only afterwards."""
    found = [max(at + by, now) for at, by in zip(times, delays, strict=True)]
    for start in range(0, len(times), 2):
        if times[start] <= now:
            after_start = 0.0 if math.isinf(delays[start]) else max(delays[start + 1] - delays[start], 0.0)
            found[start], found[start + 1] = times[start], times[start + 1] + after_start
    return found


def _delay(plain: Seconds, later: Seconds) -> float:
    return 0.0 if math.isinf(plain) else later - plain
