"""How much service (time x GPUs) finished jobs have taken, and the Gittins index that follows from it."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from weft.model import Exited, Fact, JobId, Seconds, Start, Submitted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLES: Final = 2000
GROWTH: Final = 1.05
"""Indices are computed anew when so many more have finished."""


@dataclass
class Service:
    finished: list[float] = field(default_factory=list)
    """Services of finished jobs, sorted."""
    indices: dict[int, float] = field(default_factory=dict)
    """Those computed so far; emptied when enough has been learned since."""
    _gpus: dict[JobId, int] = field(default_factory=dict)
    _started: dict[JobId, Seconds] = field(default_factory=dict)
    _spent_s: dict[JobId, float] = field(default_factory=dict)
    _seen: int = 0
    _refreshed_at: int = 0
    """How many had finished when the indices were last emptied."""

    def note(self, fact: Fact) -> None:
        match fact:
            case Submitted(job=job):
                self._gpus[job.id] = max(job.gpus, 1)
            case Start(at=at, job=job_id):
                self._started[job_id] = at
            case Exited(at=at, job=job_id, how=how):
                self._spent_s[job_id] = self._spent_s.get(job_id, 0.0) + at - self._started.pop(job_id, at)
                if how == "done":
                    self._learn(self._spent_s[job_id] * self._gpus[job_id])

    def _learn(self, service: float) -> None:
        insort(self.finished, service)
        if len(self.finished) > SAMPLES:  # the extremes go
            del self.finished[:: len(self.finished) - 1]
        self._seen += 1
        if self._seen > GROWTH * self._refreshed_at:
            self.indices.clear()
            self._refreshed_at = self._seen


def gittins_index(samples: list[float], attained: float) -> float:
    """The index of a job that has attained this much, its service being one of these samples."""
    import numpy as np

    left: NDArray[np.float64] = np.asarray(samples) - attained
    left = left[left > 0]
    if not len(left):
        return 0.0
    done = np.arange(1, len(left) + 1) / len(left)
    spent = (np.cumsum(left) + left * np.arange(len(left) - 1, -1, -1)) / len(left)
    return float(np.max(done / spent))
