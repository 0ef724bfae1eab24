"""Services in the simulator: a million requests of one service, and ten services next to the jobs of Philly."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.workloads import philly
from weft.model import Job, PerRank, ScaleRule, Service, Share
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import ScaleBounds
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.clusters.reader import read_cluster
from weft.sim.serving.arrivals import poisson
from weft.sim.serving.grid import example_grid
from weft.sim.serving.run import serve
from weft.sim.serving.service import SimulatedService
from weft.sim.serving.workload import ServiceWorkload
from weft.sim.simulation import Setting, simulate

REQUESTS = 1_000_000
SERVICES = 10
HOUR_S = 3600.0
MOST = 100
"""The most replicas of a service."""


def figures() -> Iterator[Figure]:
    yield _one_service()
    yield from _mixed()


def _one_service() -> Figure:
    grid, share = example_grid(), Share(0.3, 0.6)
    service = SimulatedService(share=share, grid=grid, profiled=grid.capacity(8, share.request))
    arrivals = poisson(REQUESTS / HOUR_S, HOUR_S, 1)
    began = time.process_time()
    found = serve(service, registry.load_scaler("deficit"), arrivals)
    cpu_s = time.process_time() - began
    return Figure(f"{found.requests:,} requests of a service under deficit", cpu_s, "CPU s", 20.0)


def _mixed() -> Iterator[Figure]:
    """Simulate all of Philly, with services for the first hour."""
    trace, nodes = philly(), read_cluster("56x8")
    jobs, _ = split_feasible(trace.jobs, nodes)
    beside = [_workload(at) for at in range(SERVICES)]
    requests = sum(len(each.arrivals.times_s) for each in beside)
    alone = simulate(Setting(nodes, jobs, "srsf")).cpu_s
    yield Figure(f"{trace.name} on 56x8, srsf, without services", alone, "CPU s")
    mixed = simulate(Setting(nodes, jobs, "srsf", services=beside)).cpu_s
    yield Figure(f"the same with {SERVICES} services, {requests:,} requests in all", mixed, "CPU s", 60.0)


def _workload(at: int) -> ServiceWorkload:
    name, share, grid = f"service{at}", Share(0.3, 0.6), example_grid()
    template = Job(name, share=share, memory_mb=PerRank(6_000))
    service = Service(name, template, ScaleRule("deficit", 1, MOST), concurrency=8)
    capacity = grid.capacity(8, share.request)
    bounds = ScaleBounds(1, MOST)
    simulated = SimulatedService(name, share, grid, profiled=capacity, throughput=capacity, bounds=bounds)
    arrivals = poisson(REQUESTS / SERVICES / HOUR_S, HOUR_S, at)
    return ServiceWorkload(service, simulated, arrivals, registry.load_scaler("deficit"))
