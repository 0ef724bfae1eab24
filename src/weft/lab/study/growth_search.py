"""Searches for the share and batch of a profile: Dilu's hybrid growth for inference, a minimum search for training.

Hybrid growth starts with one request at the smallest share. It raises the share until the latency meets the SLO. Then
it doubles the batch; when the latency no longer meets the SLO, it raises the share by one step, once. It stops if that
is not enough, or if the throughput per share falls by more than `MAX_LOSS`. Shares grow linearly, batches double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from weft.errors import InputError

MAX_LOSS: Final = 0.2
"""The largest loss of throughput per percent of a GPU that a step may cost."""
KEPT: Final = 0.98
"""The part of its full throughput that a training job should keep."""

Measure = Callable[[int, float], float]
"""Return the seconds of a batch of this size at this share."""


class Trial(NamedTuple):
    batch: int
    share: float
    seconds: float

    @property
    def throughput(self) -> float:
        return self.batch / self.seconds

    @property
    def efficiency(self) -> float:
        """Throughput per percent of the GPU."""
        return self.throughput / (100 * self.share)


class Pick(NamedTuple):
    best: Trial
    trials: tuple[Trial, ...]


def search_inference(measure: Measure, shares: Sequence[float], batches: Sequence[int], slo_s: float) -> Pick:
    """Return the share and batch by hybrid growth; raise InputError if no share meets the SLO with one request."""
    search = _Search(measure)
    at, best = 0, search.measure(batches[0], shares[0])
    while best.seconds > slo_s:
        at += 1
        if at == len(shares):
            what = f"no share meets {1000 * slo_s:g} ms: a batch of {batches[0]} takes {1000 * best.seconds:.4g} ms"
            raise InputError(f"{what} on the whole GPU", hint="raise the SLO")
        best = search.measure(batches[0], shares[at])
    for batch in batches[1:]:
        trial = search.measure(batch, shares[at])
        if trial.seconds > slo_s:
            if at + 1 == len(shares):
                break
            trial = search.measure(batch, shares[at + 1])
            if trial.seconds > slo_s or trial.efficiency < best.efficiency - MAX_LOSS:
                break
            at += 1
        best = trial
    return Pick(best, tuple(search.trials))


def search_training(measure: Measure, shares: Sequence[float], batch: int, kept: float = KEPT) -> Pick:
    """Return the smallest share that keeps this part of the throughput of the whole GPU, by bisection."""
    search = _Search(measure)
    best = search.measure(batch, shares[-1])
    wanted = kept * best.throughput
    low, high = 0, len(shares) - 1
    while low < high:
        middle = (low + high) // 2
        trial = search.measure(batch, shares[middle])
        if trial.throughput >= wanted:
            best, high = trial, middle
        else:
            low = middle + 1
    return Pick(best, tuple(search.trials))


class _Search:
    """Counts the measurements."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.trials: list[Trial] = []

    def measure(self, batch: int, share: float) -> Trial:
        self.trials.append(Trial(batch, share, self._measure(batch, share)))
        return self.trials[-1]
