"""Priority: higher first, equals first come, first served; backfilled with a reservation for the blocked head (EASY).

With ageing, every so many seconds of waiting are worth one more step of priority. All who wait age alike, so the order
among them is fixed when they arrive: priority against the time of submission.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Priority(Policy):
    """Higher priority first, with backfill."""

    ageing_s: float | None = None
    """Seconds of waiting that count as one step of priority; none: it does not age."""
    backfill: bool = True
    """Let those pass who do not delay the first that does not fit."""
    preempts: bool = False
    """Stop runs of lower priority for higher."""

    def __post_init__(self) -> None:
        if self.ageing_s is not None and self.ageing_s <= 0:
            raise ValueError(f"ageing_s must be above 0, or none, not {self.ageing_s:g}")

    def key(self, job: JobView, now: Seconds) -> float:
        if self.ageing_s is not None:
            return job.submitted_at / self.ageing_s - job.job.priority
        return float(-job.job.priority)
