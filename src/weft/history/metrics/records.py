"""Records of a journal: one line per job, one line per instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from weft.model import JobId, Seconds

Status = Literal["blocked", "waiting", "held", "running", "done", "failed", "cancelled"]
ClusterRow = tuple[Seconds, int, int, int, int, float]
"""Time, busy GPUs, GPUs, pending, running, blocking index: as they are from this instant to the next row's."""


@dataclass(slots=True)
class JobRecord:
    """The history of a job. None: not yet, or unknown."""

    id: JobId
    user: str
    gpus: int
    status: Status
    submit: Seconds
    first_start: Seconds | None
    end: Seconds | None
    runs: int
    preemptions: int
    queue_s: float
    """Seconds spent waiting, before the first start and between runs."""
    gpu_seconds: float
    solo_s: float | None
    rho: float | None
    group: str = ""
    team: str = ""

    @property
    def jct_s(self) -> float | None:
        return None if self.end is None else self.end - self.submit

    @property
    def first_wait_s(self) -> float | None:
        return None if self.first_start is None else self.first_start - self.submit

    @property
    def restarts(self) -> int:
        return max(self.runs - 1, 0)


def gpu_changes(counts: Iterable[tuple[Seconds, int]]) -> list[tuple[Seconds, int]]:
    """Yield only the rows that differ from the row before."""
    change_log: list[tuple[Seconds, int]] = []
    last = -1
    for at, gpus in counts:
        if gpus != last:
            change_log.append((at, gpus))
            last = gpus
    return change_log
