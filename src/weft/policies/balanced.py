"""Balanced: first come, first served, on the node with the lowest load (the placement of the same name)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Balanced(Policy):
    """First come, first served, load spread evenly over the nodes."""

    backfill: bool = False
    """Start later jobs that do not delay the first job that does not fit."""

    placement = "balanced"

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
