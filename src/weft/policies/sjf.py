"""SJF: shortest job first, as declared; nobody is stopped for it."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.ports import JobView, Policy
from weft.model import Seconds


@dataclass(frozen=True)
class Sjf(Policy):
    """Shortest job first, without preemption."""

    backfill: bool = False
    """Let those pass who do not delay the first that does not fit (EASY)."""

    def key(self, job: JobView, now: Seconds) -> float:
        return job.remaining(now)
