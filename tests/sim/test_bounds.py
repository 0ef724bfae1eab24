"""No policy beats the lower bounds: random clusters and traces, both models, woven or not, whatever goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import isclose

import pytest

from weft.history.metrics.figures import Record, figures, gather
from weft.model import WHOLE, Gpu, Job, Node, Profile, Share
from weft.scheduling.plugins import registry
from weft.sim import bounds
from weft.sim.bounds import compute_bounds
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.costs.muri import makespan_since
from weft.sim.faults.uncertainty import CERTAIN, Uncertainty
from weft.sim.simulation import Model, Setting, simulate
from weft.sim.traces.generator import small
from weft.sim.traces.profiles import profile
from weft.sim.traces.trace import TraceJob

POLICIES = (
    *sorted(registry.registered_plugins("weft.policies")),
    "muri-l:blossom=off",
    "loom-s",
    "loom-l",
    "muri-s:packing=2",
    "muri-l:ordering=worst",
)
MADE_UP = (
    Profile("data", 1.0, 0.8, 0.1, 0.1, 5.0),
    Profile("compute", 1.0, 0.1, 0.8, 0.1, 3.0),
    Profile("network", 0.5, 0.1, 0.1, 0.4, 9.0),
    Profile("quick alone", 0.4, 0.4, 0.3, 0.3, 0.0),
)
MODELS = ("bert", "gpt2", "vgg16", "resnet18", "a2c")
TROUBLE = (CERTAIN, CERTAIN, Uncertainty("lognormal:1"), Uncertainty(mtbf_s=3000, repair_s=300, crash_rate=0.1))


def cluster(draw: random.Random) -> list[Node]:
    sizes = [draw.choice([1, 2, 4, 8]) for _ in range(draw.randint(1, 4))]
    return [Node(f"n{at}", (Gpu("", 100),) * size, switch=f"s{at // 2}") for at, size in enumerate(sizes)]


def trace(draw: random.Random, gpus: int) -> list[TraceJob]:
    """Busy enough for weaves; some jobs are tiny, some share a GPU."""
    jobs, at, real = [], 0.0, draw.random() < 0.5
    for number in range(draw.randint(4, 30)):
        at += draw.choice([0, 0, 0, 1, 30, 200])
        size = draw.choice([1, 1, 2, 4, gpus])
        kind = profile(draw.choice(MODELS), size) if real and size < 5 else draw.choice(MADE_UP)
        iterations = draw.choice([1, 20, 300, 3000])
        share = Share(0.5, 0.5) if draw.random() < 0.1 else WHOLE
        job = Job(f"j{number}", min(size, gpus), declared_s=iterations * kind.iteration_s, iterations=iterations,
                  profile=kind, share=share, opportunistic=draw.random() < 0.5, retries=50)  # fmt: skip
        jobs.append(TraceJob(at, job, iterations * kind.iteration_s))
    return jobs


def beats(setting: Setting, measured: Callable[[float], bool] = lambda _: True) -> str:
    """The part by which a result may beat its bound: by Muri's rules an end may move onto an arrival."""
    assert isinstance(setting.policy, str)
    possible = compute_bounds(setting.jobs, setting.nodes, setting.model, measured)
    record = gather(simulate(setting).journal.read(), since=makespan_since(setting.model))
    whole, part = figures(record), figures(Record([job for job in record.jobs if measured(job.submit)]))
    if part.avg_jct_s is None or whole.makespan_s is None:
        return ""
    assert whole.finished == len(setting.jobs)
    sharing = registry.load_policy(setting.policy).oversubscription > 1
    jct_s = possible.alone_avg_jct_s if sharing else possible.avg_jct_s
    makespan_s = possible.alone_makespan_s if sharing else possible.makespan_s
    found = []
    if part.avg_jct_s < jct_s * (1 - 1e-9) - 1e-4:
        found.append(f"average JCT {part.avg_jct_s} < {jct_s}")
    if whole.makespan_s < makespan_s * (1 - 1e-9) - 1e-4:
        found.append(f"makespan {whole.makespan_s} < {makespan_s}")
    return ", ".join(found)


@pytest.mark.parametrize("model", ["real", "muri"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_beats_them(policy: str, model: Model) -> None:
    for seed in range(4):
        draw = random.Random(seed)
        nodes = cluster(draw)
        jobs, _ = split_feasible(trace(draw, sum(len(node.gpus) for node in nodes)), nodes)
        setting = Setting(nodes, jobs, policy, None, model, seed=seed, uncertainty=draw.choice(TROUBLE))
        assert not beats(setting), seed
        middle = jobs[len(jobs) // 2].submit_s
        assert not beats(setting, lambda submit_s, middle=middle: submit_s >= middle), seed  # type: ignore[misc]


@pytest.mark.parametrize("model", ["real", "muri"])
def test_they_are_not_far_away(model: Model) -> None:
    """A bound of nothing holds too, and is worth nothing."""
    nodes = [Node(f"n{at}", (Gpu("", 100),) * 8) for at in range(4)]
    jobs, _ = split_feasible(small().jobs, nodes)
    possible = compute_bounds(jobs, nodes, model)
    found = figures(gather(simulate(Setting(nodes, jobs, "srsf", model=model)).journal.read()))
    assert found.avg_jct_s is not None
    assert found.makespan_s is not None
    assert possible.avg_jct_s > found.avg_jct_s / 4
    assert possible.makespan_s > found.makespan_s / 4
    assert possible.avg_jct_s >= possible.alone_avg_jct_s
    assert possible.makespan_s >= possible.alone_makespan_s


def test_where_nobody_waits_they_are_reached() -> None:
    nodes = [Node("n0", (Gpu("", 100),) * 8)]
    jobs = [TraceJob(10.0 * at, Job(f"j{at}", 1, declared_s=50.0), 50.0) for at in range(8)]
    possible = compute_bounds(jobs, nodes, "real")
    found = figures(gather(simulate(Setting(nodes, jobs, "fifo")).journal.read()))
    assert found.avg_jct_s == possible.avg_jct_s == 50
    assert found.makespan_s is not None
    assert isclose(found.makespan_s, possible.makespan_s)


def test_prices_for_the_average_jct_only_raise_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (Node("n0", (Gpu("", 32768),) * 8, switch="s0"),)
    jobs = [TraceJob(0.0, each.job, each.work_s) for each in small().jobs if each.job.gpus <= 8]
    tight = compute_bounds(jobs, nodes, "muri")
    monkeypatch.setattr(bounds, "PRICE_STEPS", 0)
    loose = compute_bounds(jobs, nodes, "muri")
    assert tight.avg_jct_s >= loose.avg_jct_s
    assert tight.makespan_s == loose.makespan_s
