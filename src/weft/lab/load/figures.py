"""The outcome of a load test: each request, and the figures of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.history.metrics.quantile import quantile

FAILED: Final = 0
TIMED_OUT: Final = -1
NOT_SENT: Final = -2
REASONS: Final = {FAILED: "failed", TIMED_OUT: "timed out", NOT_SENT: "not sent"}
PERCENTILES: Final = (50, 90, 95, 99)


class Sent(NamedTuple):
    """One request. Times count from when it was due, so a slow server cannot hide behind a sender that waits."""

    due_s: float
    first_s: float
    """Until the first byte of the answer."""
    seconds: float
    status: int
    """The status of the answer, or one of REASONS."""


class LoadFigures(NamedTuple):
    requests: int
    ok: int
    """Answers with a status below 400."""
    seconds: float
    """From the first request to the last answer."""
    latency_s: dict[str, float]
    """Mean, percentiles and maximum of the answers that are ok."""
    first_s: dict[str, float]
    """The same for the first bytes."""
    late: int | None
    """Requests that are not ok, or slower than the limit; None: no limit."""
    codes: dict[str, int]


def summarise(sent: Sequence[Sent], slo_s: float | None) -> LoadFigures:
    """Return the figures of all requests."""
    good = [each for each in sent if 0 < each.status < 400]
    late = None if slo_s is None else len(sent) - sum(each.seconds <= slo_s for each in good)
    codes = Counter(REASONS.get(each.status, str(each.status)) for each in sent)
    begin_s = min((each.due_s for each in sent), default=0.0)
    end_s = max((each.due_s + each.seconds for each in sent), default=0.0)
    return LoadFigures(
        len(sent),
        len(good),
        end_s - begin_s,
        describe([each.seconds for each in good]),
        describe([each.first_s for each in good]),
        late,
        dict(sorted(codes.items())),
    )


def describe(values: Sequence[float]) -> dict[str, float]:
    """Return mean, percentiles and maximum; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)
    found = {"mean": sum(ordered) / len(ordered)}
    found.update({f"p{part}": quantile(ordered, part / 100) for part in PERCENTILES})
    return {**found, "max": ordered[-1]}


def by_second(sent: Sequence[Sent]) -> list[tuple[int, int, float, float]]:
    """Return each second's requests, answers that are not ok, median and 99th percentile of latency."""
    seconds: dict[int, list[Sent]] = {}
    for each in sent:
        seconds.setdefault(int(each.due_s), []).append(each)
    rows = []
    for at in range(max(seconds, default=-1) + 1):
        here = seconds.get(at, [])
        good = sorted(each.seconds for each in here if 0 < each.status < 400)
        p50, p99 = (quantile(good, 0.5), quantile(good, 0.99)) if good else (0.0, 0.0)
        rows.append((len(here), len(here) - len(good), p50, p99))
    return rows
