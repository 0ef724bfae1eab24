"""Deadlines: advice to the submitter of a job that may not make its deadline. Pure.

`deadline_note` takes a range of expected ends, whatever made it. `expected_end` makes one from the durations of
similar jobs alone, and does not count the time in the queue.
"""

from __future__ import annotations

from datetime import datetime
from math import isinf
from typing import NamedTuple

from weft.model import Job, Seconds
from weft.scheduling.core.state.durations import Durations


class ExpectedEnd(NamedTuple):
    p50: Seconds
    p90: Seconds
    """Infinite: it may not end."""
    basis: str = ""
    """The basis of the range, such as `without its time in the queue`."""


def deadline_note(deadline_at: Seconds, end: ExpectedEnd | None, now: Seconds) -> str | None:
    """Return the note for a job that has missed its deadline, or may miss it; None: it is likely to make it."""
    if deadline_at <= now:
        return f"its deadline, {_clock(deadline_at, now)}, has passed"
    if end is None or end.p90 <= deadline_at:
        return None
    basis = f" ({end.basis})" if end.basis else ""
    if end.p50 > deadline_at:
        return (
            f"it cannot make its deadline, {_clock(deadline_at, now)}: "
            f"it ends at {_clock(end.p50, now)} at P50, {_clock(end.p90, now)} at P90{basis}"
        )
    before = "its end is unknown" if isinf(end.p90) else f"it ends before {_clock(end.p90, now)}"
    return f"it may miss its deadline, {_clock(deadline_at, now)}: {before} at P90{basis}"


def expected_end(job: Job, durations: Durations, now: Seconds) -> ExpectedEnd | None:
    """Return the range of ends of a job that starts now; None: nothing is known of its duration."""
    begin = max(now, job.begin_at or now)
    if job.declared_s is not None:
        return ExpectedEnd(begin + job.declared_s, begin + job.declared_s, "by its declared duration, without a queue")
    found = durations.similar(job)
    if found is None:
        return None
    return ExpectedEnd(begin + found.mean_s, begin + found.longest_s, "by similar jobs, without a queue")


def _clock(at: Seconds, now: Seconds) -> str:
    """Format a time in local time, with its date unless that is today."""
    if isinf(at):
        return "an unknown time"
    found = datetime.fromtimestamp(at)
    return f"{found:%H:%M}" if found.date() == datetime.fromtimestamp(now).date() else f"{found:%Y-%m-%d %H:%M}"
