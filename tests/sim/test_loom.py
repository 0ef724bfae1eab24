"""Loom on traces of a few jobs, worked out by hand, and its guard against slow-down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.builders import Rig, grid, profile, record, traced
from weft.history.metrics.figures import gather
from weft.model import Job, Node, Rewoven, Start
from weft.scheduling.weaving.valuation import MIN_WAKE_S
from weft.sim.simulation import Model, prepare
from weft.sim.traces.trace import TraceJob

THREE = 1.5 / 1.015
DATA, GPU = profile(0.9, 0.05, 0.05), profile(0.05, 0.9, 0.05)


@pytest.mark.parametrize("policy", ["loom-s", "loom-l"])
def test_all_run_alone_while_all_fit(policy: str) -> None:
    done = record(grid(1, 2), [traced("a", 0, 7), traced("b", 0, 9)], policy, model="muri")
    assert done.ends() == {"a": 7, "b": 9}


def test_loom_s_takes_the_shortest_where_nothing_can_be_woven() -> None:
    """One GPU, jobs that use it all the time: in turn, shortest first."""
    each = profile(0.0, 1.0, 0.0)
    jobs = [traced(id, 0, work, profile=each) for id, work in (("a", 50), ("b", 10), ("c", 30))]
    done = record(grid(1, 1), jobs, "loom-s", model="muri")
    assert done.ends() == {"b": 10, "c": 40, "a": 90}


def test_loom_s_weaves_what_fits_together() -> None:
    """One GPU, 100 iterations of 1 s each, two jobs that load data and two that compute. There is room for two data
    stages, but one GPU stage. A pair of both takes 1.05 x 1.33/1.015 s for two iterations, two data jobs and one GPU
    job 1.05 x 1.5/1.015 s for three, all four 1.9 x 1.37/1.015 s: three do the most work. The fourth runs alone after
    that."""
    jobs = [traced(f"{kind}{at}", 0, 100, profile=p) for at in (1, 2) for kind, p in (("d", DATA), ("g", GPU))]
    done = record(grid(1, 1), jobs, "loom-s", model="muri")
    three = 105 * THREE
    assert done.ends() == {
        "d1": pytest.approx(three), "d2": pytest.approx(three), "g1": pytest.approx(three),
        "g2": pytest.approx(three + 100),
    }  # fmt: skip


def test_a_job_without_a_profile_runs_alone() -> None:
    bare = traced("bare", 0, 50)
    bare = replace(bare, job=replace(bare.job, profile=None, iterations=None))
    done = record(grid(1, 1), [traced("a", 0, 50, profile=DATA), traced("b", 0, 50, profile=GPU), bare], "loom-s")
    woven = {name for f in done.facts if isinstance(f, Start | Rewoven) for name in f.weave}
    assert woven == {"a", "b"}
    assert len(done.ends()) == 3


ALWAYS = profile(0.0, 1.0, 0.0)


def worst_rho(nodes: Sequence[Node], jobs: Sequence[TraceJob], policy: str, model: Model) -> float:
    done = record(nodes, jobs, policy, model=model)
    found = gather(done.facts, {each.job.id: each.work_s for each in jobs})
    return max(job.rho for job in found.jobs if job.rho is not None)


@pytest.mark.parametrize("model", ["real", "muri"])
def test_the_guard_lets_a_job_run_that_shorter_ones_would_starve(model: Model) -> None:
    """One GPU; a job of 50 s arrives every 50 s. With three jobs there at a time, an equal share for the one of 200 s
    takes 600 s; it would wait for 10,000."""
    jobs = [traced("long", 0, 200, profile=ALWAYS)]
    jobs += [traced(f"{at}", max(at - 1, 0) * 50, 50, profile=ALWAYS) for at in range(200)]
    assert worst_rho(grid(1, 1), jobs, "loom-s:max_rho=0", model) > 15
    assert worst_rho(grid(1, 1), jobs, "loom-s:max_rho=8", model) < 8


@pytest.mark.parametrize("model", ["real", "muri"])
def test_the_guard_lets_a_gang_of_unknown_length_run_that_single_jobs_would_starve(model: Model) -> None:
    """Two GPUs; two jobs of one GPU arrive every 100 s. All take as long as far as is known, so the gang of two is
    last. With five jobs there at a time, an equal share for it takes 500 s; it would wait for 15,000."""
    jobs = [traced("gang", 0, 100, gpus=2, profile=ALWAYS)]
    jobs += [traced(f"{at}", max(at // 2 - 1, 0) * 100, 100, profile=ALWAYS) for at in range(300)]
    assert worst_rho(grid(1, 2), jobs, "loom-l:max_rho=0", model) > 20
    assert worst_rho(grid(1, 2), jobs, "loom-l:max_rho=16", model) < 16


def test_loom_plans_when_a_job_becomes_urgent_although_nothing_happens() -> None:
    """Two jobs share a GPU: an equal share for the second takes 4,000 s, and half of that is its work alone. At 400 s
    it would have a slow-down of (400 + 2,000) / 4,000, half of the limit."""
    rig = Rig("loom-s:max_rho=1.2", grid(1, 1))
    rig.submit(Job("first", 1, declared_s=1000.0, profile=ALWAYS), Job("second", 1, declared_s=2000.0, profile=ALWAYS))
    rig.settle()
    assert set(rig.active) == {"first"}
    rig.later(399)
    rig.settle()
    assert set(rig.active) == {"first"}
    rig.later(1 + MIN_WAKE_S)
    rig.settle()
    assert set(rig.active) == {"second"}


@pytest.mark.parametrize("policy", ["loom-s:order=slots", "loom-l:order=slots"])
def test_decides_the_same_after_a_restart_with_more_profiles_than_a_table_holds(policy: str) -> None:
    """20 profiles at first count as fewer; the ten that are left after the cut count as ten."""
    kinds = [profile(0.1 + 0.04 * at, 0.9 - 0.04 * at, 0.05) for at in range(20)]
    jobs = [traced(f"{at}", 10 * at, 60 + 20 * at, profile=kinds[at % 20]) for at in range(40)]
    recording = record(grid(1, 2), jobs, policy)
    ends = sorted(end for end in recording.ends().values() if end is not None)
    at = next(n for n, (events, _) in enumerate(recording.steps) if events[0].at > ends[29])
    scheduler, _ = prepare(recording.setting)
    scheduler.replay(recording.facts_of(recording.steps[:at]))
    for events, decisions in recording.steps[at:]:
        assert list(scheduler.step(*events)) == decisions
