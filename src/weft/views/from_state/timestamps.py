"""Timestamps of answers. A separate module, so that commands that only read answers do not import `datetime`."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float | None) -> str | None:
    """Return the time in ISO 8601, UTC, with milliseconds; None stays None."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def seconds_of(iso: str | None) -> float:
    """Return the time in seconds; that of None is 0."""
    return 0.0 if iso is None else datetime.fromisoformat(iso).timestamp()
