"""Loom leaves no GPU idle that a waiting job could use, and shares none while all jobs fit alone."""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import Rig, grid, node, record
from weft.model import Deployed, Job, Node, PerRank, Profile, ScaleRule, Service, Where
from weft.scheduling.core.planning.tentative import slots_of
from weft.scheduling.core.ports import Policy
from weft.scheduling.plugins import registry
from weft.sim.traces.generator import generate
from weft.sim.traces.profiles import MODELS, profile

BUSY = Profile("busy", 1.0, 0.0, 1.0, 0.0)
both = pytest.mark.parametrize("policy", ["loom-s", "loom-l"])
orders = pytest.mark.parametrize("order", ["fair", "slots"])


def busy_gpus(rig: Rig) -> int:
    return len({(name, gpu) for slots in rig.active.values() for name, gpus in slots for gpu in gpus})


def small_jobs(count: int) -> list[Job]:
    return [Job(f"s{at}", 1, declared_s=5000.0 + at, profile=BUSY) for at in range(count)]


def startable(rig: Rig) -> list[str]:
    """Return the waiting jobs that fit on idle GPUs."""
    resources, found = rig.state.resources, []
    for job in rig.state.waiting.values():
        parts = rig.placement.place(job.shape, resources.free_for(job.shape, after_release=False))
        if parts is not None and slots_of(resources, job.shape, parts, rig.placement) is not None:
            found.append(job.id)
    return found


@both
@orders
def test_no_pair_of_models_shares_a_gpu_while_others_are_idle(policy: str, order: str) -> None:
    for first, second in combinations_with_replacement(MODELS, 2):
        rig = Rig(f"{policy}:order={order}", grid(1, 8))
        rig.submit(Job("x", 1, declared_s=5000.0, profile=profile(first, 1)))
        rig.settle()
        rig.now = 60.0
        rig.submit(Job("y", 1, declared_s=4000.0, profile=profile(second, 1)))
        rig.settle()
        assert rig.active["x"] != rig.active["y"], (first, second)


@both
@orders
def test_nothing_is_woven_and_no_run_restarts_while_everything_fits_alone(policy: str, order: str) -> None:
    jobs = generate(150, seed=3, gpus_in_cluster=64, load=0.5).jobs
    done = record(grid(8, 8), jobs, f"{policy}:order={order}")
    assert [job.id for job in done.state.jobs.values() if job.run != 1] == []
    assert not any(getattr(fact, "weave", ()) for fact in done.facts)


@both
def test_jobs_that_need_scarce_gpus_leave_the_others_to_the_rest(policy: str) -> None:
    """Eight A100 and 56 V100: one of the jobs that need eight A100 runs at a time."""
    rig = Rig(policy, [node("a", 8, model="A100"), *[node(f"v{at}", 8, model="V100") for at in range(7)]])
    large = [Job(f"a{at}", 8, declared_s=100.0 + at, profile=BUSY, where=Where("A100")) for at in range(20)]
    rig.submit(*large, *small_jobs(80))
    rig.settle()
    assert busy_gpus(rig) == 64


@both
def test_jobs_that_never_fit_leave_all_gpus_to_the_rest(policy: str) -> None:
    rig = Rig(policy, grid(8, 8))
    large = [Job(f"a{at}", 8, memory_mb=PerRank(80_000), declared_s=100.0 + at, profile=BUSY) for at in range(8)]
    rig.submit(*large, *small_jobs(80))
    rig.settle()
    assert busy_gpus(rig) == 64


@both
def test_jobs_that_do_not_fit_next_to_replicas_leave_the_gpus_to_the_rest(policy: str) -> None:
    """Replicas of five GPUs on each node: no job of eight fits."""
    rig = Rig(policy, grid(8, 8))
    rig.tell(Deployed(0.0, Service("chat", Job("chat", 5), ScaleRule("fixed", 8, 8))))
    rig.settle()
    rig.submit(*[Job(f"a{at}", 8, declared_s=100.0 + at, profile=BUSY) for at in range(8)], *small_jobs(80))
    rig.settle()
    assert busy_gpus(rig) == 64


def nodes() -> st.SearchStrategy[list[Node]]:
    each = st.tuples(st.sampled_from((2, 4, 8)), st.sampled_from(("A100", "V100")), st.sampled_from((16_384, 32_768)))
    return st.lists(each, min_size=1, max_size=5).map(
        lambda drawn: [node(f"n{at}", g, model=model, memory_mb=mb) for at, (g, model, mb) in enumerate(drawn)]
    )


def jobs() -> st.SearchStrategy[list[Job]]:
    one = st.builds(
        _job,
        st.sampled_from((1, 1, 2, 3, 4, 8)),
        st.sampled_from((0, 6_000, 20_000, 80_000)),
        st.sampled_from(("", "A100")),
        st.sampled_from(MODELS[:3]),
        st.floats(10.0, 1e5),
    )
    return st.lists(one, min_size=1, max_size=24).map(
        lambda drawn: [replace(job, id=f"j{at}") for at, job in enumerate(drawn)]
    )


def _job(gpus: int, memory_mb: int, gpu_model: str, model: str, seconds: float) -> Job:
    where = Where(gpu_model)
    return Job("", gpus, memory_mb=PerRank(memory_mb), declared_s=seconds, profile=profile(model, gpus), where=where)


@functools.cache
def policy_of(name: str) -> Policy:
    """One object for all examples: it remembers the rates of groups."""
    return registry.load_policy(name)


@both
@given(nodes=nodes(), jobs=jobs(), ends=st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=25, deadline=None)
def test_no_waiting_job_fits_on_idle_gpus_of_mixed_nodes(
    policy: str, nodes: list[Node], jobs: list[Job], ends: list[int]
) -> None:
    rig = Rig(policy_of(policy), nodes)
    rig.submit(*jobs)
    rig.settle()
    assert startable(rig) == []
    for at in ends:
        if rig.active:
            rig.now += 100.0
            rig.exit(sorted(rig.active)[at % len(rig.active)])
            rig.settle()
            assert startable(rig) == []
