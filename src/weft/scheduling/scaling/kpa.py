"""KPA: the rule of Knative's pod autoscaler. A stable window, and a panic window that reacts to bursts.

In panic (twice the capacity within the short window) the number never falls, until a whole stable window is calm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from weft.scheduling.scaling.port import Autoscaler, Load, Wish, ceil_replicas, check_positive

DOWN_FACTOR = 2.0
"""The most by which the number may shrink in one decision."""


@dataclass(frozen=True)
class Kpa(Autoscaler):
    """Knative's rule: a stable and a panic window over rate or concurrency."""

    metric: Literal["rate", "concurrency"] = "rate"
    utilization: float = 0.7
    """The part of its capacity at which a replica should run."""
    stable: int = 60
    """Seconds of the stable window."""
    panic: int = 6
    """Seconds of the panic window."""
    panic_at: float = 2.0
    """Panic begins when the load is this many times the capacity."""
    down_delay: int = 20
    """Seconds for which the most replicas wanted are kept; Knative calls it scale-down-delay, and its default is 0."""

    def __post_init__(self) -> None:
        check_positive(utilization=self.utilization, stable=self.stable, panic=self.panic, panic_at=self.panic_at)
        check_positive(down_delay=self.down_delay)
        if self.panic > self.stable:
            raise ValueError("panic must not be longer than stable")

    def begin(self) -> Any:
        return (), -1.0, ()

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        samples, panic_s, wants = memory
        by_rate = self.metric == "rate"
        samples = (*samples, load.arrivals if by_rate else load.in_flight + load.queued)[-self.stable :]
        each = (load.throughput if by_rate else float(load.slots)) * self.utilization
        stable = ceil_replicas(sum(samples) / len(samples) / each)
        recent = samples[-self.panic :]
        panicked = ceil_replicas(sum(recent) / len(recent) / each)
        if panicked >= self.panic_at * max(load.ready, 1):
            panic_s = load.now_s
        elif panic_s >= 0 and load.now_s - panic_s > self.stable:
            panic_s = -1.0
        if panic_s >= 0:
            wanted, why = max(panicked, load.replicas), f"panic: {panicked} wanted over {len(recent)} s"
        else:
            wanted, why = max(stable, int(load.replicas / DOWN_FACTOR)), f"{stable} wanted over {len(samples)} s"
        wants = (*wants, wanted)[-self.down_delay :]
        return (samples, panic_s, wants), Wish(max(wants), why)
