"""Simple: first come, first served, on the node that wastes least (the placement of the same name)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Simple(Policy):
    """First come, first served, least waste; only on idle nodes."""

    backfill: bool = False
    """Let those pass who do not delay the first that does not fit."""

    placement = "simple"

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
