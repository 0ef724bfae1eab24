from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from weft.errors import InputError
from weft.sim.generator import GANG_MIX, PHILLY_MIX, generate, small, write_weft_csv
from weft.sim.profiles import MODELS, profile
from weft.sim.trace import Trace, read_trace


def offered_load(trace: Trace, gpus: int) -> float:
    return math.fsum(each.work_s * each.job.gpus for each in trace.jobs) / gpus / trace.jobs[-1].submit_s


def test_small_csv_is_what_the_generator_makes(tmp_path: Path) -> None:
    write_weft_csv(small(), tmp_path / "small.csv")
    assert (tmp_path / "small.csv").read_bytes() == files("weft.sim").joinpath("data", "small.csv").read_bytes()


def test_small_csv_is_busy_with_gangs_that_its_cluster_can_hold() -> None:
    jobs = small().jobs
    assert len(jobs) == 200
    assert {each.job.gpus for each in jobs} == set(GANG_MIX)
    assert 1.0 < offered_load(small(), 32) < 1.25


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    trace = generate(300, seed=5)
    write_weft_csv(trace, tmp_path / "t.csv")
    assert read_trace(tmp_path / "t.csv", seed=99).jobs == trace.jobs


def test_a_seed_is_a_trace() -> None:
    assert generate(50, seed=1) == generate(50, seed=1)
    assert generate(50, seed=1).jobs != generate(50, seed=2).jobs


def test_it_looks_like_philly() -> None:
    trace = generate(20_000, seed=3)
    durations_s = [each.work_s for each in trace.jobs]
    assert median(durations_s) == pytest.approx(1144, rel=0.05)
    assert mean(durations_s) == pytest.approx(13136, rel=0.15)
    for gpus, part in PHILLY_MIX.items():
        assert sum(each.job.gpus == gpus for each in trace.jobs) / 20_000 == pytest.approx(part, abs=0.006)
    assert {each.job.profile for each in trace.jobs if each.job.gpus == 1} == {profile(m, 1) for m in MODELS}


@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
def test_arrivals_offer_the_load_that_was_asked(load: float) -> None:
    assert offered_load(generate(5_000, seed=7, gpus_in_cluster=128, load=load), 128) == pytest.approx(load, rel=0.05)


def test_gangs_larger_than_the_cluster_are_left_out() -> None:
    assert {each.job.gpus for each in generate(500, seed=1, gpus_in_cluster=4, mix=GANG_MIX).jobs} == {1, 2, 4}


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"jobs": 0}, "cannot generate 0 jobs"),
        ({"load": 0.0}, "a load of 0.0"),
        ({"load": math.nan}, "a load of nan"),
        ({"mix": {8: 1.0}, "gpus_in_cluster": 4}, "cannot draw from the mix {}"),
        ({"mix": {1: -1.0, 2: 3.0}}, "cannot draw from the mix"),
        ({"median_s": 10.0, "mean_s": 5.0}, "no log-normal has median 10.0 s and mean 5.0 s"),
    ],
)
def test_what_cannot_be_generated_is_said(options: Mapping[str, Any], fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        generate(**{"jobs": 5, "seed": 0, **options})
    assert fragment in str(caught.value)
    assert caught.value.hint
