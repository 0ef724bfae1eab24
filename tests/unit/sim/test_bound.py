"""Lower bounds by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import grid, node, part, profile
from weft.model import Job, Profile
from weft.sim.bounds import MAX_EXACT_PROFILES, compute_bounds
from weft.sim.traces.trace import TraceJob


def job(id: str, work_s: float, *, at: float = 0.0, gpus: int = 1, profile: Profile | None = None) -> TraceJob:
    return TraceJob(at, Job(id, gpus, declared_s=work_s, profile=profile), work_s)


def test_one_gpu_does_the_shortest_first() -> None:
    found = compute_bounds([job("a", 30), job("b", 10)], grid(1, 1), "real")
    assert (found.avg_jct_s, found.makespan_s) == (25, 40), "10 and 40"
    assert (found.alone_avg_jct_s, found.alone_makespan_s) == (20, 30)


def test_a_short_job_overtakes_a_long_one() -> None:
    found = compute_bounds([job("a", 30), job("b", 10, at=5)], grid(1, 1), "real")
    assert (found.avg_jct_s, found.makespan_s) == (25, 40), "a ends at 40, b at 15"


def test_nobody_is_done_sooner_than_alone() -> None:
    found = compute_bounds([job("a", 30), job("b", 10)], grid(1, 2), "real")
    assert (found.avg_jct_s, found.makespan_s) == (20, 30)


def test_the_middle_of_a_job_is_half_of_it_before_its_end() -> None:
    """Four equal jobs on two GPUs: as one machine twice as fast they end at 5, 10, 15, 20; in truth 10, 10, 20, 20."""
    found = compute_bounds([job(f"j{at}", 10) for at in range(4)], grid(1, 2), "real")
    assert found.avg_jct_s == 15
    assert found.makespan_s == 20


def test_a_gang_takes_as_many_gpus() -> None:
    assert compute_bounds([job(f"j{at}", 10, gpus=4) for at in range(3)], grid(1, 4), "real").makespan_s == 30
    shared = [replace(each, job=replace(each.job, share=part(2))) for each in (job(f"j{at}", 10) for at in range(4))]
    assert compute_bounds(shared, grid(1, 1), "real").makespan_s == 20


def test_starts_and_distance_cost_in_the_real_model_only() -> None:
    slow = profile(1, 1, 1, start=7)
    far = [job("a", 100, gpus=8, profile=slow)]
    assert compute_bounds(far, grid(2, 4), "real").makespan_s == pytest.approx(7 + 117)
    assert compute_bounds(far, grid(2, 4), "muri").makespan_s == 100
    apart = [node("n0", 4, switch="s0"), node("n1", 4, switch="s1")]
    assert compute_bounds(far, apart, "real").makespan_s == pytest.approx(7 + 135)


def test_weaving_is_allowed_for() -> None:
    """Both at once would take half as long; with contention it is more, and less than one after the other."""
    reader, thinker = profile(0.9, 0.05, 0.05), profile(0.05, 0.9, 0.05)
    jobs = [job("a", 100, profile=reader), job("b", 100, profile=thinker)]
    assert 100 <= compute_bounds(jobs, grid(1, 1), "muri").makespan_s < 150
    alike = [job(name, 100, profile=thinker) for name in "ab"]
    assert compute_bounds(alike, grid(1, 1), "muri").makespan_s == pytest.approx(200), "nothing to gain"


def test_many_profiles_are_bounded_roughly_but_surely() -> None:
    kinds = [profile(0.1 + at / 100, 0.9 - at / 100, 0.1) for at in range(MAX_EXACT_PROFILES + 1)]
    rough = compute_bounds([job(f"j{at}", 100, profile=kind) for at, kind in enumerate(kinds)], grid(1, 1), "muri")
    exact = compute_bounds(
        [job(f"j{at}", 100, profile=kind) for at, kind in enumerate(kinds[:MAX_EXACT_PROFILES])], grid(1, 1), "muri"
    )
    assert 100 <= rough.makespan_s <= exact.makespan_s + 100


def test_only_measured_jobs_count_for_the_jct() -> None:
    jobs = [job("a", 1000), job("b", 10, at=500), job("c", 30, at=501)]
    found = compute_bounds(jobs, grid(1, 1), "real", lambda submit_s: submit_s > 0)
    assert found.avg_jct_s == pytest.approx((10 + 39) / 2)
    assert found.makespan_s == 1040, "of all"
