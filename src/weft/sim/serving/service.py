"""A service as the simulator knows it: how long its batches or streams take, and what its users expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weft.errors import InputError
from weft.model import Share
from weft.scheduling.scaling.port import ScaleBounds
from weft.sim.serving.grid import LatencyGrid

DEFAULT_SHARE: Final = Share(0.3, 0.6)


@dataclass(frozen=True)
class SimulatedService:
    """A service. With a grid its replicas batch; without, each request holds a slot for its tokens."""

    name: str = "service"
    share: Share = DEFAULT_SHARE
    grid: LatencyGrid | None = None
    slots: int = 8
    """The largest batch, or the streams of a replica."""
    token_s: float = 0.0417
    """Seconds per generated token of a stream."""
    slo_s: float = 0.25
    """Seconds from arrival to answer; of streams, seconds until it begins."""
    cold_start_s: float = 10.0
    throughput: float = 48.0
    """Declared requests per second of a replica."""
    profiled: float | None = None
    """Profiled requests per second of a replica; None: it has no profile."""
    bounds: ScaleBounds = field(default_factory=ScaleBounds)
    burst: bool = False
    """True: replicas run at their limit; False: at their request."""

    def __post_init__(self) -> None:
        if self.slots < 1 or self.throughput <= 0 or self.slo_s <= 0 or self.cold_start_s < 0:
            raise InputError(f"service {self.name}: slots, throughput and SLO must be above 0")
        if self.grid is not None and self.grid.seconds(1, self.share.limit) > self.slo_s:
            fastest = self.grid.seconds(1, self.share.limit)
            what = (
                f"service {self.name}: no batch meets {1000 * self.slo_s:g} ms: one request takes {1000 * fastest:g} ms"
            )
            raise InputError(what, hint="raise the SLO, or the limit")

    @property
    def speed(self) -> float:
        """The share of its GPU that a replica runs at."""
        return self.share.limit if self.burst else self.share.request
