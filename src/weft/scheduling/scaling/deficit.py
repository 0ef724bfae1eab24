"""Deficit: replicas for the present rate at a part of their capacity, and for the backlog; out at once, in slowly.

The mean rate of the last seconds, divided by the capacity of a replica times a target, is the number wanted. A backlog
that the replicas do not hold is to be gone within some seconds. More replicas start at once; fewer remain once the most
that was wanted for a while is less, and always enough for the mean rate of some minutes: a calm stretch between two
bursts ends sooner than a replica starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from weft.scheduling.scaling.port import Autoscaler, Load, Wish, ceil_replicas, check_positive
from weft.scheduling.scaling.recent import out_now_in_later


@dataclass(frozen=True)
class Deficit(Autoscaler):
    """The rate of the last seconds at a part of the capacity; starts the whole deficit at once."""

    window: int = 3
    """Seconds over which the rate is averaged."""
    target: float = 0.6
    """The part of its capacity at which a replica should run."""
    keep: int = 20
    """Seconds for which the most replicas wanted are kept."""
    drain: float = 10.0
    """Seconds in which a backlog should be gone."""
    calm: int = 180
    """Seconds of which the mean rate says how many replicas remain in a calm stretch."""
    calm_target: float = 0.8
    """The part of its capacity at which a replica that remains would serve that mean rate."""

    def __post_init__(self) -> None:
        check_positive(window=self.window, target=self.target, keep=self.keep, drain=self.drain)
        check_positive(calm=self.calm, calm_target=self.calm_target)

    def begin(self) -> Any:
        return (), ()

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        rates, wants = memory
        rates = (*rates, load.arrivals)[-max(self.window, self.calm) :]
        rate, mean_rate = fmean(rates[-self.window :]), fmean(rates[-self.calm :])
        want, why = rate / (load.capacity * self.target), f"{rate:.1f}/s at {self.target:g} of {load.capacity:.1f}/s"
        backlog = load.queued - load.slots * load.ready
        if backlog > 0:
            for_backlog = (rate + backlog / self.drain) / load.capacity
            if for_backlog > want:
                want, why = for_backlog, f"{rate:.1f}/s and {backlog} queued, at {load.capacity:.1f}/s"
        remain = ceil_replicas(mean_rate / (load.capacity * self.calm_target))
        wants, wish = out_now_in_later(wants, want, load, self.keep, why, remain)
        return (rates, wants), wish
