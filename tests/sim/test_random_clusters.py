"""Random clusters and traces: all jobs that can run do, no GPU is given twice, and sorting again changes nothing."""

from __future__ import annotations

import random

import pytest

from support.state_checks import double_booked
from weft.model import ANYWHERE, WHOLE, Gpu, Job, Node, PerRank, Profile, Share, Where
from weft.scheduling.plugins import registry
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.simulation import Model, Setting, simulate
from weft.sim.traces.trace import TraceJob

PROFILES = (
    Profile("x", 1.0, 0.6, 0.2, 0.2, 5.0),
    Profile("y", 1.0, 0.1, 0.8, 0.1, 3.0),
    Profile("z", 0.5, 0.1, 0.1, 0.4, 9.0),
)
PLACEMENTS = (None, "packed", "spread", "count", "yarn")
SEEDS = range(1, 13)


def cluster(draw: random.Random, rich: bool) -> list[Node]:
    nodes = []
    for at in range(draw.randint(1, 4)):
        gpu = Gpu(draw.choice("AB") if rich else "", draw.choice([100, 200]) if rich else 100)
        cpus = draw.choice([0, 16, 64]) if rich else 0
        nodes.append(Node(f"n{at}", (gpu,) * draw.choice([2, 4, 4, 8]), cpus=cpus, switch=f"s{at // 2}"))
    return nodes


def trace(draw: random.Random, gpus: int, rich: bool) -> list[TraceJob]:
    jobs, at = [], 0.0
    for number in range(draw.randint(3, 14)):
        at += draw.choice([0, 0, 1, 10, 50, 200])
        size = draw.randint(1, min(gpus, 8) if draw.random() < 0.8 else gpus)
        work_s, profile = float(draw.choice([3, 20, 100, 400, 1000])), draw.choice(PROFILES)
        memory = (
            tuple(draw.choice([10, 60, 90]) for _ in range(size)) if draw.random() < 0.1 else draw.choice([0, 50, 90])
        )
        job = Job(
            f"j{number}",
            size,
            declared_s=work_s,
            iterations=int(work_s / profile.iteration_s),
            profile=profile,
            opportunistic=draw.random() < 0.5,
            cpus=draw.choice([0, 0, 1]) if rich else 0,
            memory_mb=PerRank.parse(memory if rich else 0),
            share=draw.choice([WHOLE, WHOLE, Share(0.5, 0.5)]) if rich else WHOLE,
            where=draw.choice([ANYWHERE, ANYWHERE, ANYWHERE, Where(gpu_model="A")]) if rich else ANYWHERE,
        )
        jobs.append(TraceJob(at, job, work_s))
    return jobs


@pytest.mark.parametrize("model", ["real", "muri"])
@pytest.mark.parametrize("policy", sorted(registry.registered_plugins("weft.policies")))
def test_all_that_can_run_runs(policy: str, model: Model) -> None:
    for seed in SEEDS:
        draw = random.Random(seed)
        rich = seed % 2 == 0
        nodes = cluster(draw, rich)
        jobs, _ = split_feasible(trace(draw, sum(len(node.gpus) for node in nodes), rich), nodes)
        setting = Setting(nodes, jobs, policy, draw.choice(PLACEMENTS), model)
        if not jobs:
            continue
        done = simulate(setting)
        facts = list(done.journal.read())
        assert not list(double_booked(facts)), seed
        assert len(done.state.ended) == len(jobs), seed
        resorted = Setting(nodes, jobs, policy, setting.placement, model, resort=True)
        assert list(simulate(resorted).journal.read()) == facts, seed
