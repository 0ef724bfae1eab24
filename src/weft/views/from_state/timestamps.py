"""Timestamps of answers. A separate module, so that commands that only read answers do not import `datetime`."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float | None) -> str | None:
    """Return the time in ISO 8601, UTC, with milliseconds; None stays None."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
