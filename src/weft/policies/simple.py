"""Simple: first come, first served, on the node with the least waste (the placement of the same name)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Simple(Policy):
    """First come, first served, least waste."""

    backfill: bool = False
    """Start later jobs that do not delay the first job that does not fit."""

    idle_only: bool = False
    """Use only nodes on which nothing runs."""

    placement = "simple"

    def __post_init__(self) -> None:
        if self.idle_only:
            object.__setattr__(self, "placement", "simple:idle_only=on")

    def key(self, job: JobView, now: Seconds) -> float:
        return job.submitted_at
