"""How much service (time x GPUs) finished jobs have taken, and the Gittins index that follows from it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from weft.model import Edited, Exited, Fact, JobId, JobSnapshot, Submitted
from weft.policy_state.holdings import Holdings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

SAMPLES: Final = 2000
"""How many of the last that finished count."""
GROWTH: Final = 1.05
"""Keys are computed anew when so many more have finished."""


@dataclass
class AttainedService:
    finished: list[float] = field(default_factory=list)
    """Services of the jobs that finished last, sorted."""
    keys: dict[int, float] = field(default_factory=dict)
    """Those computed so far, by what was attained; emptied when enough has been learned since."""
    epoch: int = 0
    """Rises each time they are."""
    sample: Sequence[float] | Numbers = ()
    """What had finished then: all keys of an epoch come of the same."""
    _latest: deque[float] = field(default_factory=deque)
    """The same services, in the order in which they finished."""
    _gpus: dict[JobId, int] = field(default_factory=dict)
    _spells: Holdings = field(default_factory=Holdings)
    _seen: int = 0
    _refreshed_at: int = 0
    """How many had finished when the keys were last emptied."""

    def note(self, fact: Fact) -> None:
        if isinstance(fact, Submitted | Edited | JobSnapshot):
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
            self.keys.clear()
            self.epoch += 1
            self.sample = as_numbers(self.finished)
            self._refreshed_at = self._seen


def as_numbers(services: Sequence[float]) -> Numbers:
    import numpy as np

    return np.array(services)


def gittins_index(samples: Sequence[float] | Numbers, attained: float) -> float:
    """The index of a job that has attained this much, its service being one of these samples, which are sorted."""
    import numpy as np

    services: Numbers = np.asarray(samples)
    left = services[services.searchsorted(attained, "right") :] - attained
    if not len(left):
        return 0.0
    done, others = _counts(len(left))
    return float((done / (left.cumsum() + left * others)).max())


@lru_cache(maxsize=4096)
def _counts(count: int) -> tuple[Numbers, Numbers]:
    """How many of so many are done with each, and how many are not."""
    import numpy as np

    return np.arange(1.0, count + 1), np.arange(count - 1.0, -1.0, -1.0)
