from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import pytest

from weft.errors import InputError
from weft.model import PerRank
from weft.sim.traces.distributions import arrivals, durations, mix, whole_mix
from weft.sim.traces.generator import GANG_MIX, PHILLY_MIX, Kinds, demo, generate, named_users, small
from weft.sim.traces.profiles import MODELS, profile
from weft.sim.traces.trace import Trace, read_trace
from weft.sim.traces.writers import to_bytes


def offered_load(trace: Trace, gpus: int) -> float:
    return math.fsum(each.work_s * each.job.gpus for each in trace.jobs) / gpus / trace.jobs[-1].submit_s


def test_small_csv_is_what_the_generator_makes() -> None:
    assert to_bytes(small(), "weft") == files("weft.sim").joinpath("data", "small.csv").read_bytes()


def test_small_csv_is_busy_with_gangs_that_its_cluster_can_hold() -> None:
    jobs = small().jobs
    assert len(jobs) == 200
    assert {each.job.gpus for each in jobs} == set(GANG_MIX)
    assert 1.0 < offered_load(small(), 32) < 1.25


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    trace = generate(300, seed=5)
    (tmp_path / "t.csv").write_bytes(to_bytes(trace, "weft"))
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


# ---- as asked


def gaps(trace: Trace) -> list[float]:
    return [after.submit_s - before.submit_s for before, after in pairwise(trace.jobs)]


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma:0.5", 0.5), ("gamma:3", 3.0)])
def test_gaps_vary_as_much_as_asked(kind: str, cv: float) -> None:
    found = gaps(generate(5_000, seed=1, arrivals=arrivals(kind)))
    assert pstdev(found) / mean(found) == pytest.approx(cv, rel=0.1)


@pytest.mark.parametrize("kind", ["poisson", "gamma:3", "daily", "burst"])
def test_all_arrivals_offer_the_same_load(kind: str) -> None:
    trace = generate(20_000, seed=2, arrivals=arrivals(kind), durations=durations("fixed:600"))
    assert offered_load(trace, 64) == pytest.approx(0.9, rel=0.1)


def test_days_have_a_busy_middle() -> None:
    trace = generate(20_000, seed=2, arrivals=arrivals("daily"), durations=durations("fixed:3600"))
    hours = [each.submit_s % 86400 / 3600 for each in trace.jobs if each.submit_s < 10 * 86400]
    noon, midnight = sum(9 <= hour < 15 for hour in hours), sum(hour < 3 or hour >= 21 for hour in hours)
    assert noon > 4 * midnight


def test_bursts_come_close_together() -> None:
    found = gaps(generate(5_000, seed=2, arrivals=arrivals("burst")))
    assert sum(gap <= 1.01 for gap in found) / len(found) == pytest.approx(0.95, abs=0.02)


def test_durations_as_asked() -> None:
    assert {each.work_s for each in generate(50, seed=1, durations=durations("fixed:90")).jobs} == {90.0}
    found = [each.work_s for each in generate(5_000, seed=1, durations=durations("exponential:500")).jobs]
    assert mean(found) == pytest.approx(500, rel=0.1)


def test_kinds_as_asked() -> None:
    kinds = Kinds(named_users(40), mix("bert=3,gpt2=1,vgg16=0", "--models"), {8000: 0.5, 16000: 0.5})
    jobs = generate(4_000, seed=1, kinds=kinds).jobs
    models = [each.job.profile.model for each in jobs if each.job.profile]
    assert models.count("bert") / 4_000 == pytest.approx(0.75, abs=0.03)
    assert models.count("gpt2") + models.count("bert") == 4_000
    assert len({each.job.user for each in jobs}) == 40
    assert {each.job.memory_mb for each in jobs} == {PerRank(8000), PerRank(16000)}


def test_asking_for_models_changes_nothing_else() -> None:
    plain, asked = generate(300, seed=1), generate(300, seed=1, kinds=Kinds(models={"bert": 1.0}))
    assert [(e.submit_s, e.work_s, e.job.user) for e in plain.jobs] == [
        (e.submit_s, e.work_s, e.job.user) for e in asked.jobs
    ]


def test_the_demo_is_small_by_another_name() -> None:
    assert demo().jobs == small().jobs
    assert {each.job.retries for each in demo(3).jobs} == {3}


@pytest.mark.parametrize(
    "text",
    ["", "uniform", "gamma", "gamma:", "gamma:0", "gamma:nan", "gamma:1e9", "poisson:2", "daily:", "gamma:1:2"],
)
def test_no_such_arrivals(text: str) -> None:
    with pytest.raises(InputError, match="no such arrivals"):
        arrivals(text)


@pytest.mark.parametrize(
    "text", ["", "fixed", "fixed:0", "fixed:-1", "fixed:inf", "lognormal:5", "exponential:1:2", "x:1"]
)
def test_no_such_durations(text: str) -> None:
    with pytest.raises(InputError, match="no such durations"):
        durations(text)


@pytest.mark.parametrize(
    "text", ["", "1", "1=", "=1", "1=x", "1=-1", "1=1,1=1", "1=nan", "1=1,", "1=0", "a=1", "0=1", "01=1,1=1"]
)
def test_bad_mixes(text: str) -> None:
    with pytest.raises(InputError, match="bad --gpus-mix") as caught:
        whole_mix(text, "--gpus-mix", low=1, high=100)
    assert caught.value.hint
