"""Rules that every policy keeps next to services, with every placement that places by request and limit."""

from __future__ import annotations

from functools import cache

import pytest

from support.state_checks import check
from weft.model import Gpu, Job, Node, PerRank, ScaleRule, Service, Share, Stop
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import ScaleBounds
from weft.scheduling.sharing.port import SharePlacement
from weft.sim.serving.arrivals import gamma
from weft.sim.serving.grid import example_grid
from weft.sim.serving.service import SimulatedService
from weft.sim.serving.workload import ServiceWorkload
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.trace import TraceJob

POLICIES = sorted(registry.registered_plugins("weft.policies"))
PLACEMENTS = [
    name
    for name in sorted(registry.registered_plugins("weft.placements"))
    if isinstance(registry.load_placement(name), SharePlacement)
]
NODES = [Node(f"n{at}", (Gpu(memory_mb=40_000),) * 4) for at in range(2)]
SHARES = (Share(), Share(0.5, 0.7), Share(0.3, 0.4))


@cache
def workload(name: str, rate: float, request: float, memory_mb: int, scaler: str) -> ServiceWorkload:
    share, grid = Share(request, 2 * request), example_grid()
    template = Job(name, share=share, memory_mb=PerRank(memory_mb))
    service = Service(name, template, ScaleRule(scaler, 1, 4), concurrency=8)
    throughput = grid.capacity(8, request)
    bounds = ScaleBounds(1, 4)
    simulated = SimulatedService(name, share, grid, profiled=throughput, throughput=throughput, bounds=bounds)
    return ServiceWorkload(service, simulated, gamma(rate, 2.0, 40.0, 1), registry.load_scaler(scaler))


def jobs() -> list[TraceJob]:
    """Training on whole GPUs and on shares, alone and in gangs, with declared lengths."""
    return [
        TraceJob(
            4.0 * at,
            Job(f"j{at}", 1 + at % 3, declared_s=10.0 + at, share=SHARES[at % 3], memory_mb=PerRank(9_000)),
            10.0 + at,
        )
        for at in range(9)
    ]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_training_ends_and_every_request_is_answered(policy: str, placement: str) -> None:
    beside = [workload("chat", 60.0, 0.3, 6_000, "deficit"), workload("images", 90.0, 0.4, 12_000, "lazy:window=10")]
    outcome = simulate(Setting(NODES, jobs(), policy, placement, services=beside))
    assert {job.job.id: outcome.state.jobs[job.job.id].status for job in jobs()} == {
        job.job.id: "done" for job in jobs()
    }
    assert {name: found.requests for name, found in outcome.services.items()} == {
        each.service.name: len(each.arrivals.times_s) for each in beside
    }
    assert not outcome.state.services.by_name, "services end with their last request"
    replayed = State(outcome.scheduler.policy.oversubscription)
    for fact in outcome.journal.read():
        replayed.apply(fact)
        if isinstance(fact, Stop):
            assert fact.why != "preempted" or replayed.jobs[fact.job].job.replica is None, "replicas are not preempted"
    check(replayed)
