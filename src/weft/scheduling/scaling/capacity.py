"""The capacity of a replica, learned from the requests that complete while the service is saturated (pure)."""

from __future__ import annotations

from statistics import median
from typing import Final, NamedTuple

MIN_SAMPLES: Final = 5
MAX_SAMPLES: Final = 30


class LearnedCapacity(NamedTuple):
    """Completions per second and replica of the last saturated seconds."""

    samples: tuple[float, ...] = ()

    def learn(self, completed: float, ready: int, *, saturated: bool) -> LearnedCapacity:
        """Return the memory after a second. It counts only if requests waited all the time and all replicas worked."""
        if not saturated or ready < 1 or completed <= 0:
            return self
        return LearnedCapacity((*self.samples, completed / ready)[-MAX_SAMPLES:])

    def requests_per_s(self, otherwise: float) -> float:
        """Return the capacity; `otherwise` until there are enough samples."""
        return median(self.samples) if len(self.samples) >= MIN_SAMPLES else otherwise
