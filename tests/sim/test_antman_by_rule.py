"""AntMan agrees with its rules job by job, on generated traces; ties between GPUs follow the rounding of their load."""

from __future__ import annotations

import pytest

from support.antman_rules import ends_of
from weft.scheduling.weaving.colocated import host_cycles_per_iteration
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.generator import generate
from weft.sim.traces.profiles import profile

MIXES = ({1: 0.3, 2: 0.1, 4: 0.2, 8: 0.3, 16: 0.1}, {8: 0.8, 16: 0.1, 32: 0.1}, {1: 0.7, 2: 0.2, 4: 0.1})


@pytest.mark.parametrize("seed", range(9))
def test_every_job_ends_when_the_rules_say(seed: int) -> None:
    load = (0.7, 1.2, 2.0)[seed // 3]
    jobs = generate(250, seed=seed, load=load, mix=MIXES[seed % 3], median_s=2000, mean_s=20_000).jobs
    state = simulate(Setting(read_cluster("8x8"), jobs, "antman", model="muri")).state
    ends = [state.jobs[each.job.id].ended_at for each in jobs]
    assert ends == pytest.approx(ends_of(jobs), rel=1e-12)


def test_gaps_and_their_rest_are_rounded_separately() -> None:
    """0.111 / 0.0005 is 222.0, and 0.111 % 0.0005 is not 0: 223 gaps, and 5 for the data stage."""
    assert host_cycles_per_iteration(profile("resnet18", 32), profile("bert", 1)) == 228
