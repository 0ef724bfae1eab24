"""Lazy: Dilu's horizontal scaler (ASPLOS'25). One replica more or less at a time, after many seconds that ask for it.

Of the last `window` seconds, at least `out` must exceed what the replicas declare to sustain, or at least `in_` stay
below what one replica less would sustain. The window starts again after each action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.scheduling.scaling.port import Autoscaler, Load, Wish, check_positive


@dataclass(frozen=True)
class Lazy(Autoscaler):
    """Dilu's rule: one replica at a time, after 20 busy or 30 calm seconds of 40."""

    window: int = 40
    """Seconds of the sliding window."""
    out: int = 20
    """Seconds above the declared throughput after which a replica is added."""
    in_: int = 30
    """Seconds below that of one replica less after which a replica is removed."""

    def __post_init__(self) -> None:
        check_positive(window=self.window, out=self.out, in_=self.in_)

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        counts = (*memory, load.arrivals)[-self.window :]
        replicas, each = load.replicas, load.throughput
        above = sum(count > replicas * each for count in counts)
        below = sum(count < (replicas - 1) * each for count in counts)
        if above >= self.out:
            return (), Wish(replicas + 1, f"{above} of {len(counts)} s above {replicas * each:g}/s")
        if below >= self.in_ and replicas > 1:
            return (), Wish(replicas - 1, f"{below} of {len(counts)} s below {(replicas - 1) * each:g}/s")
        return counts, Wish(replicas, f"{above} s above, {below} s below")
