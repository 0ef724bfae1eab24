"""One service under one autoscaler: a decision each second, cold starts, draining, and the figures at the end."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from math import ceil

from weft.history.metrics.quantile import quantile
from weft.scheduling.scaling.capacity import LearnedCapacity
from weft.scheduling.scaling.port import TICK_S, Autoscaler, Load, ScaleState, decide
from weft.sim.serving.arrivals import Arrivals
from weft.sim.serving.pool import ReplicaPool
from weft.sim.serving.service import SimulatedService

LATENCY_STEP_S = 10.0
"""Seconds over which the series of latencies takes the 95th percentile."""


@dataclass
class ServiceFigures:
    """The figures of a service: its requests, its replicas and its latencies."""

    requests: int
    late: int
    """Requests beyond the SLO."""
    p50_s: float
    p95_s: float
    p99_s: float
    replica_s: float
    """Seconds of all replicas, from the order to the end of the drain, within the workload."""
    cold_starts: int
    scale_actions: int
    peak_replicas: int
    capacity: float
    """Requests per second of a replica, as learned at the end."""
    times_s: array[float] = field(default_factory=lambda: array("d"), repr=False)
    rates: array[float] = field(default_factory=lambda: array("d"), repr=False)
    replicas: array[int] = field(default_factory=lambda: array("l"), repr=False)
    p95s_s: array[float] = field(default_factory=lambda: array("d"), repr=False)

    @property
    def violations(self) -> float:
        """The part of the requests beyond the SLO."""
        return self.late / self.requests if self.requests else 0.0

    @property
    def p95_times_s(self) -> list[float]:
        """The times at which the steps of `p95s_s` begin."""
        return [at * LATENCY_STEP_S for at in range(len(self.p95s_s))]

    def values(self) -> dict[str, float]:
        """Return the figures as the fields of a JSON object."""
        return {
            "requests": self.requests, "late": self.late, "violations": self.violations, "p50_s": self.p50_s,
            "p95_s": self.p95_s, "p99_s": self.p99_s, "replica_s": self.replica_s, "cold_starts": self.cold_starts,
            "scale_actions": self.scale_actions, "peak_replicas": self.peak_replicas,
        }  # fmt: skip


def serve(service: SimulatedService, scaler: Autoscaler, arrivals: Arrivals) -> ServiceFigures:
    """Serve all requests; the autoscaler decides each second until the workload ends."""
    pool = ReplicaPool(service, arrivals)
    for _ in range(service.bounds.min_replicas):
        pool.add(ready_s=0.0)
    state, capacity = ScaleState(scaler.begin()), LearnedCapacity()
    known = service.profiled or service.throughput
    series = Series()
    actions = 0
    for tick in range(1, ceil(arrivals.horizon_s / TICK_S) + 1):
        pool.advance(tick * TICK_S)
        load = pool.load()
        capacity = capacity.learn(pool.completed_last / TICK_S, load.ready, saturated=pool.saturated)
        load = load._replace(capacity=capacity.requests_per_s(known))
        series.add(load)
        state, wish = decide(scaler, state, load, service.bounds)
        actions += _resize(pool, load, wish.replicas)
    _serve_rest(pool, service)
    return figures_of(pool, service, arrivals, actions, capacity.requests_per_s(known), series)


def _resize(pool: ReplicaPool, load: Load, wanted: int) -> bool:
    for _ in range(wanted - load.replicas):
        pool.add(ready_s=pool.now_s + pool.service.cold_start_s)
    for _ in range(load.replicas - wanted):
        pool.remove()
    return wanted != load.replicas


def _serve_rest(pool: ReplicaPool, service: SimulatedService) -> None:
    """Answer the requests that remain after the workload; without a replica, start one."""
    if not pool.counted():
        pool.add(ready_s=pool.now_s + service.cold_start_s)
    while not pool.finished:
        pool.advance(pool.now_s + 60.0)


def figures_of(
    pool: ReplicaPool,
    service: SimulatedService,
    arrivals: Arrivals,
    actions: int,
    capacity: float,
    series: Series,
) -> ServiceFigures:
    horizon_s = arrivals.horizon_s
    ordered = [each for each in pool.replicas if each.ordered_s < horizon_s or not each.ordered_s]
    replica_s = sum(max(min(each.ended_s, horizon_s) - each.ordered_s, 0.0) for each in ordered)
    sorted_s = sorted(pool.latencies_s)
    return ServiceFigures(
        requests=len(sorted_s),
        late=len(sorted_s) - bisect_right(sorted_s, service.slo_s + 1e-12),
        p50_s=_quantile(sorted_s, 0.5),
        p95_s=_quantile(sorted_s, 0.95),
        p99_s=_quantile(sorted_s, 0.99),
        replica_s=replica_s,
        cold_starts=sum(each.ready_s > 0 for each in ordered),
        scale_actions=actions,
        peak_replicas=max(series.replicas, default=0),
        capacity=capacity,
        times_s=series.times_s,
        rates=series.rates,
        replicas=series.replicas,
        p95s_s=_p95_over_time(arrivals, pool.latencies_s),
    )


class Series:
    """Values of each second."""

    def __init__(self) -> None:
        self.times_s, self.rates, self.replicas = array("d"), array("d"), array("l")

    def add(self, load: Load) -> None:
        self.times_s.append(load.now_s)
        self.rates.append(load.arrivals)
        self.replicas.append(load.replicas)


def _quantile(sorted_s: list[float], part: float) -> float:
    return quantile(sorted_s, part) if sorted_s else 0.0


def _p95_over_time(arrivals: Arrivals, latencies_s: array[float]) -> array[float]:
    """Return the 95th percentile of each step of time, by arrival. The router is first come, first served."""
    found, at = array("d"), 0
    for step in range(1, ceil(arrivals.horizon_s / LATENCY_STEP_S) + 1):
        until = bisect_right(arrivals.times_s, step * LATENCY_STEP_S, lo=at)
        found.append(_quantile(sorted(latencies_s[at:until]), 0.95))
        at = until
    return found
