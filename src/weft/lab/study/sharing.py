"""The sharing study: a replica and a training job on one GPU, under exclusive, static and adaptive shares.

Training runs at a speed proportional to its share, up to its limit, where it is as fast as alone. `exclusive` gives
each a GPU. `static-request` gives the replica its request all the time, `static-limit` its limit. `adaptive` gives the
replica its request while it serves a batch, or its limit if a request would otherwise use up most of its SLO; between
batches the whole GPU belongs to the training job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weft.model import Share
from weft.sim.serving.arrivals import poisson
from weft.sim.serving.grid import LatencyGrid
from weft.sim.serving.pool import ReplicaPool
from weft.sim.serving.service import SimulatedService

MODES: Final = ("exclusive", "static-request", "static-limit", "adaptive")
SECONDS: Final = 300.0
ENDANGERED: Final = 0.6
"""The part of its SLO from which on a request gets the limit of its replica."""


@dataclass(frozen=True)
class Pair:
    """A service with its latency grid, and a training job with its share."""

    service: str
    grid: LatencyGrid
    share: Share
    slo_s: float
    batch: int
    training: str
    training_share: Share

    def choose_share(self, waited_s: float, batch: int) -> float:
        """Return the share for a batch under `adaptive`."""
        ends_s = waited_s + self.grid.seconds(batch, self.share.request)
        return self.share.limit if ends_s > ENDANGERED * self.slo_s else self.share.request


@dataclass(frozen=True)
class PairFigures:
    service: str
    training: str
    mode: str
    gpus: int
    rate: float
    violations: float
    p50_s: float
    p95_s: float
    training_speed: float
    """The speed of the training job, as a part of its speed alone."""
    busy: float
    """The part of the time in which the replica serves batches."""


def share_gpus(pairs: Sequence[Pair], load: float, seed: int) -> list[PairFigures]:
    """Run every pair under every mode. The rate is a part of what the replica serves at its request."""
    return [_run(pair, mode, load, seed) for pair in pairs for mode in MODES]


def _run(pair: Pair, mode: str, load: float, seed: int) -> PairFigures:
    share = {"exclusive": 1.0, "static-limit": pair.share.limit}.get(mode, pair.share.request)
    rate = load * pair.grid.capacity(pair.batch, pair.share.request)
    service = SimulatedService(
        pair.service, Share(share, pair.share.limit if mode != "exclusive" else 1.0), pair.grid, pair.batch,
        slo_s=pair.slo_s, throughput=rate, cold_start_s=0.0,
    )  # fmt: skip
    pool = ReplicaPool(service, poisson(rate, SECONDS, seed))
    replica = pool.add(ready_s=0.0)
    if mode == "adaptive":
        pool.choose_share = pair.choose_share
    while not pool.finished:
        pool.advance(pool.now_s + 1.0)
    waits = sorted(pool.latencies_s)
    late = sum(each > pair.slo_s for each in waits)
    return PairFigures(
        pair.service, pair.training, mode, 2 if mode == "exclusive" else 1, rate, late / max(len(waits), 1),
        waits[len(waits) // 2] if waits else 0.0, waits[int(0.95 * len(waits))] if waits else 0.0,
        _training_speed(pair.training_share, mode, replica.busy_s, pool.now_s),
        sum(replica.busy_s.values()) / pool.now_s,
    )  # fmt: skip


def _training_speed(training: Share, mode: str, busy_s: Mapping[float, float], seconds: float) -> float:
    """Return the speed of training next to a replica that was busy this long at these shares."""
    if mode == "exclusive":
        return 1.0
    speeds = {share: min((1 - share) / training.limit, 1.0) for share in busy_s}
    if mode != "adaptive":
        return min(speeds.values(), default=1.0)  # the share is the replica's, busy or not
    return 1.0 - sum(spent * (1 - speeds[share]) for share, spent in busy_s.items()) / seconds
