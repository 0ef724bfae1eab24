"""Samples of the cluster and of services over the last hours, and the GPU time of each user. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

PERIOD_S: Final = 15.0
HISTORY_S: Final = 6 * 3600.0
MAX_SAMPLES: Final = int(HISTORY_S / PERIOD_S)
SERVICE_PERIOD_S: Final = 5.0
MAX_SERVICE_SAMPLES: Final = 720
"""An hour."""
MAX_SCALINGS: Final = 100
HOUR_S: Final = 3600.0
USAGE_DAYS: Final = 30
MAX_USERS: Final = 2000


class Sample(NamedTuple):
    at: float
    busy: float
    """GPUs with a job."""
    gpus: float
    utilisation: float | None
    """The mean over GPUs whose driver reports it, in percent; None: none does."""
    running: float
    waiting: float


class ServiceSample(NamedTuple):
    at: float
    rate: float
    in_flight: float
    queued: float
    ready: float
    wanted: float
    p50_s: float | None
    p95_s: float | None


class Samples:
    """The last hours of the cluster."""

    def __init__(self) -> None:
        self._rows: deque[Sample] = deque(maxlen=MAX_SAMPLES)

    def is_due(self, now: float) -> bool:
        return not self._rows or now - self._rows[-1].at >= PERIOD_S

    def add(self, sample: Sample) -> None:
        self._rows.append(sample)

    def put_before(self, earlier: Iterable[Sample]) -> None:
        """Add samples from before the first one."""
        first = self._rows[0].at if self._rows else float("inf")
        rows = [*(each for each in earlier if each.at < first), *self._rows]
        self._rows = deque(rows[-MAX_SAMPLES:], maxlen=MAX_SAMPLES)

    def recent(self, now: float) -> list[Sample]:
        return [each for each in self._rows if each.at >= now - HISTORY_S]


class ServiceHistory:
    """The load of one service, and when its number of replicas was changed."""

    def __init__(self) -> None:
        self.samples: deque[ServiceSample] = deque(maxlen=MAX_SERVICE_SAMPLES)
        self.scalings: deque[tuple[float, int, str]] = deque(maxlen=MAX_SCALINGS)

    def add(self, sample: ServiceSample, why: str) -> None:
        if not self.samples or sample.at - self.samples[-1].at >= SERVICE_PERIOD_S:
            self.samples.append(sample)
        wanted = int(sample.wanted)
        if not self.scalings or self.scalings[-1][1] != wanted:
            self.scalings.append((sample.at, wanted, why))


class Usage:
    """GPU seconds by user and hour."""

    def __init__(self) -> None:
        self._hours: dict[str, dict[int, float]] = {}

    def add(self, user: str, at: float, gpu_seconds: float) -> None:
        if user not in self._hours and len(self._hours) >= MAX_USERS:
            return
        hours = self._hours.setdefault(user, {})
        hour = int(at // HOUR_S)
        hours[hour] = hours.get(hour, 0.0) + gpu_seconds
        if len(hours) > USAGE_DAYS * 24 + 24:
            del hours[min(hours)]

    def load(self, hours: Mapping[str, Mapping[Any, float]]) -> None:
        """Add what was used before."""
        for user, by_hour in hours.items():
            for hour, gpu_seconds in by_hour.items():
                self.add(user, int(hour) * HOUR_S, gpu_seconds)

    def within(self, user: str, now: float, seconds: float) -> float:
        first = int((now - seconds) // HOUR_S)
        return sum(used for hour, used in self._hours.get(user, {}).items() if hour > first)

    def by_day(self, user: str, now: float, days: int) -> Sequence[float]:
        """Return the GPU seconds of the last days, the present one last."""
        today = int(now // 86400)
        found = [0.0] * days
        for hour, used in self._hours.get(user, {}).items():
            back = today - hour // 24
            if 0 <= back < days:
                found[days - 1 - back] += used
        return found

    def users(self) -> list[str]:
        return list(self._hours)
