"""How much service (time x GPUs) finished jobs have taken, and the Gittins index that follows from it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from weft.ledgers.spells import Spells
from weft.model import Edited, Exited, Fact, JobId, Recalled, Submitted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLES: Final = 2000
"""How many of the last that finished count."""
GROWTH: Final = 1.05
"""Indices are computed anew when so many more have finished."""


@dataclass
class Service:
    finished: list[float] = field(default_factory=list)
    """Services of the jobs that finished last, sorted."""
    indices: dict[int, float] = field(default_factory=dict)
    """Those computed so far; emptied when enough has been learned since."""
    _latest: deque[float] = field(default_factory=deque)
    """The same services, in the order in which they finished."""
    _gpus: dict[JobId, int] = field(default_factory=dict)
    _spells: Spells = field(default_factory=Spells)
    _seen: int = 0
    _refreshed_at: int = 0
    """How many had finished when the indices were last emptied."""

    def note(self, fact: Fact) -> None:
        if isinstance(fact, Submitted | Edited | Recalled):
            self._gpus[fact.job.id] = max(fact.job.gpus, 1)
        self._spells.note(fact)
        if isinstance(fact, Exited) and fact.how == "done":
            self._learn(self._spells.spent_s.pop(fact.job, 0.0) * self._gpus.pop(fact.job, 1))

    def _learn(self, service: float) -> None:
        insort(self.finished, service)
        self._latest.append(service)
        if len(self._latest) > SAMPLES:
            del self.finished[bisect_left(self.finished, self._latest.popleft())]
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
