"""The service (time x GPUs) of finished jobs, and the Gittins index computed from it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from weft.model import Fact
from weft.scheduling.policy_state.finished_jobs import FinishedJobs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MAX_SAMPLES: Final = 2000
"""Only this many of the last finished jobs count."""
REFRESH_GROWTH: Final = 1.05
"""Keys are recomputed when the number of finished jobs has grown by this factor."""


@dataclass
class AttainedService:
    finished: list[float] = field(default_factory=list)
    """The services of the last finished jobs, sorted."""
    keys: dict[int, float] = field(default_factory=dict)
    """Keys by attained service, cleared when enough jobs have finished since."""
    epoch: int = 0
    """Increases each time the keys are cleared."""
    sample: Sequence[float] | Numbers = ()
    """The services from which all keys of this epoch are computed."""
    _latest: deque[float] = field(default_factory=deque)
    """The same services in the order of completion."""
    _jobs: FinishedJobs = field(default_factory=FinishedJobs)
    _seen: int = 0
    _refreshed_at: int = 0
    """The number of finished jobs when the keys were last cleared."""

    def apply(self, fact: Fact) -> None:
        done = self._jobs.apply(fact)
        if done is not None:
            job, seconds = done
            self._learn(seconds * max(job.gpus, 1))

    def _learn(self, service: float) -> None:
        insort(self.finished, service)
        self._latest.append(service)
        if len(self._latest) > MAX_SAMPLES:
            del self.finished[bisect_left(self.finished, self._latest.popleft())]
        self._seen += 1
        if self._seen > REFRESH_GROWTH * self._refreshed_at:
            self.keys.clear()
            self.epoch += 1
            self.sample = to_array(self.finished)
            self._refreshed_at = self._seen


def to_array(services: Sequence[float]) -> Numbers:
    import numpy as np

    return np.array(services)


def gittins_index(samples: Sequence[float] | Numbers, attained: float) -> float:
    """Return the index of a job with this attained service, whose total service is one of the sorted samples."""
    import numpy as np

    services: Numbers = np.asarray(samples)
    left = services[services.searchsorted(attained, "right") :] - attained
    if not len(left):
        return 0.0
    done, others = _counts_up_to_and_after(len(left))
    return float((done / (left.cumsum() + left * others)).max())


@lru_cache(maxsize=4096)
def _counts_up_to_and_after(count: int) -> tuple[Numbers, Numbers]:
    """Return, for each of `count` sorted samples, the number of samples up to it and the number after it."""
    import numpy as np

    return np.arange(1.0, count + 1), np.arange(count - 1.0, -1.0, -1.0)
