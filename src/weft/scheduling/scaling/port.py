"""The interface of autoscalers, the bounds that hold for all of them, and scaling to zero.

An autoscaler is a frozen dataclass; its fields are its options. Once a second it gets the load of a service and its own
memory, and returns the new memory and the number of replicas it wants, with the reason. It has no clock and no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Final, NamedTuple

TICK_S: Final = 1.0
"""Seconds between two decisions."""


class Load(NamedTuple):
    """The load of a service in the last second."""

    now_s: float
    replicas: int
    """Replicas that serve or start; replicas that drain do not count."""
    ready: int
    """Replicas that serve."""
    arrivals: float
    """Requests that arrived."""
    in_flight: float
    """Requests that replicas served, on average."""
    queued: int
    """Requests that wait in the router now."""
    slots: int
    """Requests that one replica serves at a time: its largest batch, or its streams."""
    capacity: float
    """Requests per second of one replica: learned, profiled or declared."""
    throughput: float
    """Declared requests per second of one replica."""


class Wish(NamedTuple):
    replicas: int
    why: str


class Resize(NamedTuple):
    """The number of replicas that an autoscaler wants for a service, and the figures behind it."""

    service: str
    replicas: int
    why: str
    inputs: tuple[tuple[str, float], ...]


class Autoscaler:
    """An autoscaler. An attribute that a subclass annotates becomes an option."""

    by: ClassVar[str] = "rate"
    """The measure of load: rate or concurrency."""

    def begin(self) -> Any:
        """Return the memory of a service that has just been deployed."""
        return ()

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        """Return the new memory, and the number of replicas wanted; the caller applies the bounds."""
        raise TypeError(f"{type(self).__name__} has no decide")


@dataclass(frozen=True, slots=True)
class ScaleBounds:
    min_replicas: int = 1
    max_replicas: int = 1_000_000
    to_zero_after_s: float = 60.0
    """Seconds without a request after which the last replica stops, if `min_replicas` is 0."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas or self.max_replicas < 1:
            raise ValueError(f"min_replicas {self.min_replicas} and max_replicas {self.max_replicas} do not fit")
        if self.to_zero_after_s < 0:
            raise ValueError("to_zero_after must not be below 0 seconds")


class ScaleState(NamedTuple):
    memory: Any
    idle_since_s: float = inf
    """The time since which no request came or waited; infinite while requests come."""


def decide(scaler: Autoscaler, state: ScaleState, load: Load, bounds: ScaleBounds) -> tuple[ScaleState, Wish]:
    """Return the new state, and the number of replicas within bounds."""
    memory, wish = scaler.decide(state.memory, load)
    idle = not (load.arrivals or load.queued or load.in_flight)
    idle_since_s = min(state.idle_since_s, load.now_s) if idle else inf
    return ScaleState(memory, idle_since_s), _within(wish, load, bounds, idle_since_s)


def _within(wish: Wish, load: Load, bounds: ScaleBounds, idle_since_s: float) -> Wish:
    replicas, why = wish
    idle_s = load.now_s - idle_since_s
    if bounds.min_replicas == 0 and idle_s >= 0 and (not load.replicas or idle_s >= bounds.to_zero_after_s):
        return Wish(0, f"no request for {idle_s:.0f} s")
    least = max(bounds.min_replicas, 1)
    if replicas < least:
        return Wish(least, f"{why}; at least {least}")
    if replicas > bounds.max_replicas:
        return Wish(bounds.max_replicas, f"{why}; at most {bounds.max_replicas}")
    return wish


def ceil_replicas(want: float) -> int:
    """Round up; a hair above a whole number counts as it."""
    whole = int(want)
    return whole if want - whole < 1e-9 else whole + 1


def check_positive(**options: float) -> None:
    """Raise ValueError for the first option that is not above 0."""
    for name, value in options.items():
        if value <= 0:
            raise ValueError(f"{name} must be above 0, but is {value:g}")
