"""The rules of sharing a GPU: the rate of training, and the part of the GPU that a batch gets. Pure.

`prio` paces training only while a batch runs. `dilu` is Dilu's published rule with state per GPU: it paces training for
0.6 s after each batch too, and to its limit otherwise. Both take the rate inside contention from Dilu's bands: a batch
that takes longer than usual cuts the factor on the rate, and calm batches raise it again.

Tokens are seconds of the device. The period of a batch is its duration; what is usual is a low quantile of the periods
before it.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import NamedTuple

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Final

MIN_RATE: Final = 0.001
"""Training never stops entirely: a replica that hangs in a batch does not stop it for good."""
IDLE_AFTER_S: Final = 0.6
"""`dilu`: the time after the last batch in which training is still paced."""

PAUSE_S: Final = 0.005
"""Batches with a pause between them of at least this, and of at least a layer, are two contentions."""


class Bands(NamedTuple):
    """Bands of q, a period divided by the usual one, and what they do to the factor."""

    calm: float = 1.2
    """Below it, every few periods raise the factor."""
    emergency: float = 1.6
    """From here on, a period divides the factor by q."""
    ceiling: float = inf
    """From here on, a period is no evidence."""
    growth: float = 1.3
    every: int = 5
    floor: float = 0.02
    history: int = 200
    quantile: float = 0.05


PRIO_BANDS: Final = Bands()
DILU_BANDS: Final = Bands(ceiling=4.0, floor=0.01, history=20, quantile=0.0)
DILU_LLM_BANDS: Final = Bands(emergency=1.3, ceiling=4.0, floor=0.001, history=20, quantile=0.0)


class Periods:
    """The periods of one process, and the factor that follows from each of them."""

    def __init__(self, bands: Bands) -> None:
        self._bands = bands
        self._seen: deque[float] = deque(maxlen=bands.history)
        self._calm = 0

    def next_factor(self, factor: float, seconds: float) -> float:
        """Return the factor after a batch that took this long."""
        self._seen.append(seconds)
        ordered = sorted(self._seen)
        usual = ordered[int(self._bands.quantile * (len(ordered) - 1))]
        quotient = seconds / usual if usual > 0 else 1.0
        bands = self._bands
        if bands.emergency <= quotient < bands.ceiling:
            self._calm = 0
            return max(factor / quotient, bands.floor)
        if quotient < bands.calm:
            self._calm += 1
            if self._calm % bands.every == 0:
                return min(factor * bands.growth, 1.0)
        return factor


def prio_rate(is_busy: bool, factor: float, request: float) -> float:
    """Return the part of the device that training may use now; 1: all of it."""
    return max(factor * request, MIN_RATE) if is_busy else 1.0


def dilu_rate(idle_s: float, factor: float, request: float, requests: float, limits: float) -> float:
    """Return the same by Dilu's rule. `requests` and `limits` are the sums over all training on the GPU."""
    if idle_s <= IDLE_AFTER_S:
        return max(factor * request, MIN_RATE)
    part = request / requests if requests > 0 else 1.0
    return min(max(limits * part, MIN_RATE), 1.0)


def batch_share(request: float, limit: float, *, is_contended: bool) -> float:
    """Return the part of the GPU for a batch: its limit, or its request while others use the GPU."""
    return request if is_contended else limit


class Bucket:
    """Seconds of the device that training may use in contention. It saves for a layer before it begins.

    Each contention begins without savings, so a short batch is left alone. Batches that follow each other closely are
    one contention: training gets its rate of them.
    """

    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._tokens, self._at = 0.0, -inf

    def wait_s(self, now: float, since: float, rate: float, layer_s: float) -> float:
        """Return how long to wait before a layer that takes about `layer_s`. The batch began at `since`."""
        if since - self._at > max(layer_s, PAUSE_S):
            self._tokens = 0.0
        used = max(now - max(self._at, since), 0.0)
        # the debt is at most one layer: a slow one is not held against the following ones
        self._tokens = max(self._tokens - used * (1 - rate), -layer_s)
        self._at = now
        return max(layer_s * (1 - rate) - self._tokens, 0.0) / rate

    def end_wait(self, now: float, rate: float, layer_s: float) -> None:
        """Credit the time that was waited. The credit is at most one layer."""
        waited = max(now - self._at, 0.0)
        self._tokens = min(self._tokens + waited * rate, layer_s)
        self._at = now
