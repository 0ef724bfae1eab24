"""Simple: first come, first served, on the node with the least waste (the placement of the same name)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Seconds
from weft.scheduling.core.ports import PATIENCE_S, JobView, Policy, check_patience


@dataclass(frozen=True)
class Simple(Policy):
    """First come, first served, least waste."""

    backfill: bool = True
    """Start later jobs that fit while the first job does not; once it has waited for `patience`, none that delay it."""
    patience: float = PATIENCE_S
    """Seconds that the first job lets others pass before it gets a reservation."""

    idle_only: bool = False
    """Use only nodes on which nothing runs."""

    placement = "simple"

    def __post_init__(self) -> None:
        check_patience(self.patience)
        if self.idle_only:
            object.__setattr__(self, "placement", "simple:idle_only=on")

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
