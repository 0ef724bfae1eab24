"""Arrival times of requests: from a series of requests per second, from a distribution, or from a trace."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from weft.errors import InputError
from weft.inputs.csv import read_table
from weft.inputs.files import read_text

MAX_REQUESTS: Final = 50_000_000
MAX_RPS: Final = 1e7
ARRIVAL_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


class Arrivals(NamedTuple):
    """Requests in order of arrival."""

    times_s: array[float]
    horizon_s: float
    """The end of the workload."""
    tokens: array[int] | None = None
    """Tokens that each request generates; None: requests are alike."""


def read_rps(path: str) -> list[float]:
    """Read requests per second, one number per line and second."""
    found: list[float] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        text = line.strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_RPS:
            hint = f"expected requests per second from 0 to {MAX_RPS:g}, one number per line"
            raise InputError(f"bad rate {text[:40]!r}", where=f"{path}:{number}", hint=hint)
        found.append(value)
    if not found:
        raise InputError("no rates", where=path, hint="expected one number per line: requests in each second")
    return found


def from_rps(rates: Sequence[float], times: float, seed: int) -> Arrivals:
    """Return Poisson arrivals whose rate changes each second: `rates` times a factor."""
    import numpy as np

    draws = np.random.default_rng(seed)
    expected = np.asarray(rates, dtype=float) * times
    _check_count(float(expected.sum()))
    counts = draws.poisson(expected)
    starts = np.repeat(np.arange(len(counts), dtype=float), counts)
    found = np.sort(starts + draws.random(len(starts)))
    return Arrivals(array("d", found.tobytes()), float(len(counts)))


def poisson(rate: float, seconds: float, seed: int) -> Arrivals:
    """Return arrivals at a constant rate."""
    return gamma(rate, 1.0, seconds, seed)


def gamma(rate: float, variation: float, seconds: float, seed: int) -> Arrivals:
    """Return arrivals whose gaps are Gamma distributed with this coefficient of variation; 1 is Poisson."""
    import numpy as np

    if not (0 < rate <= MAX_RPS and variation > 0 and seconds > 0):
        raise InputError("a rate, variation and time above 0 are needed")
    _check_count(rate * seconds)
    draws, shape = np.random.default_rng(seed), 1 / variation**2
    found = np.zeros(0)
    while not len(found) or found[-1] < seconds:
        gaps = draws.gamma(shape, 1 / (rate * shape), int(rate * seconds * 1.1) + 100)
        found = np.concatenate([found, np.cumsum(gaps) + (found[-1] if len(found) else 0.0)])
    return Arrivals(array("d", found[found < seconds].tobytes()), seconds)


def read_llm_trace(path: str) -> Arrivals:
    """Read a trace of requests to a language model: arrival, context tokens, generated tokens."""
    table = read_table(path)
    missing = [name for name in ARRIVAL_COLUMNS if name not in table.columns]
    if missing:
        hint = f"expected {', '.join(ARRIVAL_COLUMNS)}, found {table.shown}"
        raise InputError(f"no column {missing[0]}", where=table.where, hint=hint)
    times, tokens = array("d"), array("l")
    first: float | None = None
    for row in table.rows:
        at_s = _parse_time(row.text("TIMESTAMP"))
        if at_s is None:
            raise row.error("TIMESTAMP", "a time such as 2023-11-16 18:15:46.6805900, or seconds")
        first = at_s if first is None else first
        if times and at_s - first < times[-1]:
            raise row.error("TIMESTAMP", "a time that is not before the line above")
        times.append(at_s - first)
        tokens.append(row.whole("GeneratedTokens", low=0, high=10**7))
    if not times:
        raise InputError("no requests", where=path, hint="expected one request per line, after a header")
    return Arrivals(times, times[-1] + 1.0, tokens)


def _parse_time(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    head, _, fraction = text.partition(".")
    try:
        whole = datetime.fromisoformat(head).timestamp()
        return whole + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, OverflowError):
        return None


def _check_count(expected: float) -> None:
    if expected > MAX_REQUESTS:
        raise InputError(f"{expected:,.0f} requests", hint=f"at most {MAX_REQUESTS:,}; lower the rate")
