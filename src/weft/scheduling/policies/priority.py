"""Priority: higher first, then first come, first served, with backfill and a reservation for the head (EASY).

With ageing, `ageing_s` seconds of waiting are worth one step of priority. All waiting jobs age alike, so their order is
fixed at submission: it follows from priority and submission time.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, Policy


@dataclass(frozen=True)
class Priority(Policy):
    """Higher priority first, with backfill."""

    ageing_s: float | None = None
    """Seconds of waiting that count as one step of priority; none: jobs do not age."""
    backfill: bool = True
    """Start later jobs that do not delay the first job that does not fit."""
    preempts: bool = False
    """Preempt runs of lower priority for jobs of higher priority."""

    def __post_init__(self) -> None:
        if self.ageing_s is not None and self.ageing_s <= 0:
            raise ValueError(f"ageing_s must be above 0, or none, not {self.ageing_s:g}")

    def key(self, job: JobView, now: Seconds) -> float:
        if self.ageing_s is not None:
            return job.submitted_at / self.ageing_s - job.job.priority
        return float(-job.job.priority)
