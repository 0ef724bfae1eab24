"""Calibration: earlier forecasts of starts, compared with what happened, correct the present ones.

The errors of forecasts last: where jobs of the last days have waited twice as long as expected, the next ones may.
So the 90 % quantile of a wait is multiplied by the factor that nine of ten of the latest forecasts would have kept.
The median stays as it is: an outcome is as old as the wait is long, and by then the queue is another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from weft.model import JobId, Seconds
from weft.model.status import ENDED
from weft.scheduling.core.state.state import State
from weft.sim.forecast.quantiles import Forecast, JobForecast, Quantiles, next_quantile

MIN_OUTCOMES: Final = 10
"""With fewer outcomes, forecasts stay as they are."""
SHARE: Final = 0.9
"""The part of the latest forecasts that a corrected P90 would have kept."""
MAX_OUTCOMES: Final = 50
"""The latest outcomes that count."""
MAX_PENDING: Final = 200
"""Forecasts that wait for their outcome."""
MAX_NEW: Final = 5
"""Jobs of one forecast that are compared later, spread over its queue: their errors are alike."""
MIN_WAIT_S: Final = 60.0
"""A shorter expected wait is not compared: its relative error means little."""


class Expected(NamedTuple):
    """The wait that a forecast expected of a job, before any correction."""

    at: Seconds
    p90_s: float


class Calibration:
    """The outcomes of the latest forecasts, and the forecasts that have none yet."""

    def __init__(self, pending: Mapping[JobId, Expected] | None = None, outcomes: Sequence[float] = ()) -> None:
        self._pending, self._outcomes = dict(pending or {}), list(outcomes)
        """The outcomes are the times that jobs waited, over their P90."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Calibration:
        """Return the calibration of a record; without any outcomes if the record makes no sense."""
        try:
            pending = {job: Expected(*map(_positive, each)) for job, each in record.get("pending", {}).items()}
            return cls(pending, [_positive(each) for each in record.get("outcomes", ())])
        except (TypeError, ValueError, AttributeError, OverflowError):
            return cls()

    def record(self) -> dict[str, Any]:
        """Return all that it knows, for JSON."""
        return {"pending": self._pending, "outcomes": self._outcomes}

    def learn(self, state: State) -> None:
        """Compare with what has happened to the jobs of earlier forecasts."""
        for job, expected in list(self._pending.items()):
            known = state.jobs.get(job)
            if known is not None and known.submitted_at > expected.at:
                known = None  # another job has the id, after the journal was lost
            start = known.first_start if known is not None else None
            if known is None or start is not None or known.status in ENDED:
                del self._pending[job]
            if start is not None and start >= expected.at:
                self._outcomes.append(_outcome(expected, start))
        del self._outcomes[:-MAX_OUTCOMES]

    def expect(self, found: Forecast) -> None:
        """Keep the waits of some jobs of an uncorrected forecast, to compare them later."""
        able = [
            each for each in found.jobs.values() if _is_comparable(each, found.at) and each.job not in self._pending
        ]
        for each in able[:: max(math.ceil(len(able) / MAX_NEW), 1)]:
            assert each.start.p90 is not None
            self._pending[each.job] = Expected(found.at, each.start.p90 - found.at)
        while len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def correct(self, found: Forecast) -> Forecast:
        """Return the forecast with a corrected P90. A job ends as much later as it starts later."""
        if len(self._outcomes) < MIN_OUTCOMES:
            return found
        factor = next_quantile(sorted([*self._outcomes, *self._overdue(found.at)]), SHARE)
        return replace(found, jobs={job: _corrected(each, found.at, factor) for job, each in found.jobs.items()})

    def _overdue(self, now: Seconds) -> list[float]:
        """Return the outcomes, so far, of the jobs that wait for longer than their P90: they are wrong already."""
        return [_outcome(each, now) for each in self._pending.values() if now - each.at > each.p90_s]


def _positive(value: Any) -> float:
    found = float(value)
    if not 0 < found < math.inf:
        raise ValueError(f"{value!r} is no time")
    return found


def _outcome(expected: Expected, start: Seconds) -> float:
    return max(start - expected.at, 1.0) / expected.p90_s


def _is_comparable(job: JobForecast, now: Seconds) -> bool:
    start = job.start
    return start.p50 is not None and start.p90 is not None and start.p50 - now >= MIN_WAIT_S


def _corrected(job: JobForecast, now: Seconds, factor: float) -> JobForecast:
    start, end = job.start, job.end
    if start.p50 is None or start.p90 is None:
        return job
    p90 = max(now + (start.p90 - now) * factor, start.p50)
    if end.p50 is not None and end.p90 is not None:
        end = Quantiles(end.p50, max(end.p90 + p90 - start.p90, end.p50))
    return replace(job, start=Quantiles(start.p50, p90), end=end)
