"""Forecasts in words, the same on every front end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.text import format_time, plural

if TYPE_CHECKING:
    from weft.views.answers.explain import UnblockView
    from weft.views.answers.forecasts import ForecastView

BASES: Final = {
    "declared": "as the job declares or reports",
    "limit": "at most the time limit",
    "similar": "from {jobs} of the user with such a name",
    "user": "from {jobs} of the user",
    "all": "from {jobs} of all users",
    "none": "unknown",
}
"""The ground of an estimate, in words."""


def forecast_pairs(found: ForecastView) -> list[tuple[str, str]]:
    """Return what is expected of a job, at the median and at the 90 % quantile, as labels and texts."""
    pairs = []
    if found.start_p50 is not None:
        pairs.append(("start", _times(found.start_p50, found.start_p90)))
    if found.end_p50 is not None:
        pairs.append(("end", _times(found.end_p50, found.end_p90)))
    if found.note:
        pairs.append(("forecast", found.note))
    if pairs and found.samples and found.basis in BASES:
        basis = BASES[found.basis].format(jobs=plural(found.similar, "finished job"))
        pairs.append(("samples", f"{found.samples} as of {format_time(found.at)}; duration: {basis}"))
    return pairs


def unblock_text(unblock: UnblockView, most: int | None = None) -> str:
    """Return which jobs have to end, or may be preempted, before the job fits; of many jobs, the first `most`."""
    done = "may be preempted" if unblock.preempted else "has ended" if len(unblock.jobs) == 1 else "have ended"
    return f"when {', '.join(unblock.jobs[:most])} {done}"


def _times(p50: str, p90: str | None) -> str:
    return f"{format_time(p50)} (P50), {'unknown' if p90 is None else format_time(p90)} (P90)"
