"""Balanced: first come, first served, on the node with the lowest load (the placement of the same name)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import PATIENCE_S, JobView, Policy, check_patience


@dataclass(frozen=True)
class Balanced(Policy):
    """First come, first served, load spread evenly over the nodes."""

    backfill: bool = True
    """Start later jobs that fit while the first job does not; once it has waited for `patience`, none that delay it."""
    patience: float = PATIENCE_S
    """Seconds that the first job lets others pass before it gets a reservation."""

    placement = "balanced"

    def __post_init__(self) -> None:
        check_patience(self.patience)

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
