"""srtf, srsf, tiresias and antman agree with Muri's rules job by job, on traces full of ties."""

from __future__ import annotations

import random
from typing import Final

import pytest

from support import antman_rules
from support.muri_rules import ends_of
from weft.model import Job, Profile
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.profiles import MODELS, profile
from weft.sim.traces.trace import TraceJob

POLICIES: Final = ("srtf", "srsf", "tiresias", "antman")
QUICK: Final = (31, 37, 44, 57, 61, 88, 95, 107)
"""Traces on which an order or a rounding other than Muri's shows."""
TRACES: Final = (
    631,  # reserved GPUs, while no run is left for an instant
    *(pytest.param(seed, marks=() if seed in QUICK else pytest.mark.soak) for seed in range(200)),
)
STEADY: Final = tuple(Profile("m", solo_s, 0.25 * solo_s, 0.5 * solo_s, 0.0) for solo_s in (1.0, 0.1, 1.3, 0.5))
"""Models without a start-up time: what is left of a run often equals what others need, or nearly does."""


def full_of_ties(seed: int) -> list[TraceJob]:
    """Return 40 to 120 jobs: with few lengths, sizes and arrivals; all at once, in bursts, or a fraction apart."""
    draws = random.Random(seed)
    kinds = draws.sample(MODELS, draws.choice((1, 2, len(MODELS))))
    steady = draws.sample(STEADY, draws.choice((1, 2))) if seed % 2 else None
    sizes = draws.choice(((1,), (1, 2, 4, 8), (8,), (4, 8, 16), (1, 8, 32), (1, 2, 4, 8, 16, 32)))
    gap_s = (0.0, 1.0, 60.0, 325.0, 0.1, 812.5, 101.5625, 100.0)[seed // 2 % 8]
    lengths = draws.sample((100, 200, 400, 900, 3_250, 7_200, 30_000), draws.choice((1, 3, 6)))
    burst, jobs = draws.choice((1, 4, 16)), []
    for at in range(draws.choice((40, 80, 120))):
        gpus, length_s = draws.choice(sizes), float(draws.choice(lengths))
        measured = draws.choice(steady) if steady else profile(draws.choice(kinds), gpus)
        iterations = max(round(length_s / measured.iteration_s), 1)
        guest = draws.random() < 0.5
        job = Job(str(at), gpus, declared_s=length_s, iterations=iterations, profile=measured, opportunistic=guest)
        jobs.append(TraceJob(at // burst * gap_s, job, iterations * measured.iteration_s))
    return jobs


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", TRACES)
def test_every_job_ends_when_the_rules_say(seed: int, policy: str) -> None:
    jobs = full_of_ties(seed)
    state = simulate(Setting(read_cluster("8x8"), jobs, policy, model="muri")).state
    expected = antman_rules.ends_of(jobs) if policy == "antman" else ends_of(jobs, policy)
    assert [state.jobs[each.job.id].ended_at for each in jobs] == pytest.approx(expected, rel=1e-8)
