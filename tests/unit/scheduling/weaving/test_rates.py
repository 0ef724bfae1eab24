"""The rates of members that take turns by tokens: laws that hold for all sets, and the published table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from math import fsum
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model import Profile
from weft.scheduling.weaving import rates
from weft.scheduling.weaving.grouping import Weaver
from weft.scheduling.weaving.pace import FACTORS, Pace, Stages
from weft.scheduling.weaving.rates import Rates, Tokens, iteration_rates, pacing
from weft.sim.traces import profiles

ROUNDING = 0.05
"""The model counts whole iterations, and rounds stage times."""
stage = st.one_of(st.just(0.0), st.floats(0.02, 2.0))
member = st.tuples(stage, stage, stage).filter(lambda stages: sum(stages) > 0)
sets = st.lists(member, min_size=1, max_size=4)
tokens = st.sampled_from(["fair", "fifo", "shared"])
quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)


def stages_of(members: Sequence[Profile]) -> list[Stages]:
    return [(p.data_s, p.gpu_s, p.network_s) for p in members]


def fastest(stages: Stages) -> float:
    """The most iterations per second that a job alone can do, with a batch loaded ahead."""
    return 1 / max(stages[0], stages[1] + stages[2])


# ---- laws


@quick
@given(sets, tokens)
def test_no_resource_does_more_than_it_has_room_for(stages: list[Stages], how: Tokens) -> None:
    found = iteration_rates(stages, how)
    for at, room in enumerate((2, 1, 1)):
        used = fsum(rate * each[at] for rate, each in zip(found, stages, strict=True))
        assert used <= room * (1 + ROUNDING)


@quick
@given(sets, tokens)
def test_no_member_is_faster_than_alone_and_none_stands_still(stages: list[Stages], how: Tokens) -> None:
    for rate, each in zip(iteration_rates(stages, how), stages, strict=True):
        assert 0 < rate <= fastest(each) * (1 + ROUNDING)


@quick
@given(member, tokens)
def test_a_job_alone_works_while_its_next_batch_loads(stages: Stages, how: Tokens) -> None:
    assert iteration_rates([stages], how)[0] == pytest.approx(fastest(stages), rel=1e-6)


@quick
@given(sets, tokens, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(stages: list[Stages], how: Tokens, unit: float) -> None:
    scaled = [(data * unit, gpu * unit, net * unit) for data, gpu, net in stages]
    found = [rate * unit for rate in iteration_rates(scaled, how)]
    assert found == pytest.approx(iteration_rates(stages, how), rel=ROUNDING)


@quick
@given(st.lists(member, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(stages: list[Stages], shuffle: object) -> None:
    members = [Profile(str(at), 10.0, *each) for at, each in enumerate(stages)]
    shuffled = members.copy()
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    by_name = dict(zip([p.model for p in shuffled], Rates().iterations_s(shuffled), strict=True))
    assert [by_name[p.model] for p in members] == list(Rates().iterations_s(members))


def test_members_that_are_alike_get_the_same() -> None:
    alike = [Profile("x", 3.0, 1.0, 1.0, 1.0)] * 3
    assert len(set(Rates("fifo").iterations_s(alike))) == 1


def test_a_member_of_a_weave_is_never_faster_than_its_profile_says_it_is_alone() -> None:
    """The profile has no batch loaded ahead: what that gives is not the gain of weaving."""
    ahead = Profile("ahead", 3.0, 1.0, 1.0, 1.0)
    idle = Profile("idle", 1000.0, 1000.0, 0.0, 0.0)
    assert Rates().iterations_s([ahead, idle])[0] == 3.0


def test_fair_turns_are_fair_by_time() -> None:
    """A short stage waits for a long one at most once each time, and does not take turns with it one to one."""
    short, long = Profile("short", 0.1, 0.0, 0.1, 0.0), Profile("long", 1.0, 0.0, 1.0, 0.0)
    assert Rates("fair").iterations_s([short, long]) == pytest.approx((0.2, 2.0), rel=0.1)
    assert Rates("fifo").iterations_s([short, long]) == pytest.approx((1.1, 1.1), rel=0.1)


def test_a_shared_gpu_loses_a_part() -> None:
    gpu = [(0.0, 1.0, 0.0)] * 2
    assert iteration_rates(gpu, "shared", 0.2) == pytest.approx((0.4, 0.4))


# ---- what pays


def measured(*models: str, gpus: int = 8) -> list[Profile]:
    return [profiles.profile(model, gpus) for model in models]


def test_jobs_that_need_the_same_stage_do_not_pay() -> None:
    assert Rates().total(measured("gpt2", "gpt2", "gpt2")) == pytest.approx(1.04, abs=0.04)
    assert not Rates().pays(measured("gpt2", "gpt2", "gpt2"))
    assert Rates().value(measured("gpt2", "gpt2")) is None
    assert Rates().pays(measured("bert", "resnet18"))
    assert Rates().pays(measured("gpt2")), "a job alone"


@pytest.mark.parametrize("order", ["fair", "fifo"])
def test_the_weaver_leaves_sets_apart_that_do_not_pay(order: Tokens) -> None:
    weaver = Weaver(Rates(order), 4)
    gpt = [weaver.single(name, measured("gpt2")[0]) for name in "abcd"]
    assert len(weaver.match([(8, gpt)], 8)) == 4
    mixed = [weaver.single(name, measured(model)[0]) for name, model in (("a", "gpt2"), ("b", "a2c"))]
    assert [group.members for group in weaver.match([(8, mixed)], 8)] == [("a", "b")]


def test_contention_divides_the_rates() -> None:
    members = measured("gpt2", "bert")
    free, slow = Rates("fair"), Rates("fair", FACTORS)
    expected = [max(p.iteration_s, s * FACTORS[2]) for p, s in zip(members, free.iterations_s(members), strict=True)]
    assert slow.iterations_s(members) == pytest.approx(expected)
    assert slow.total(members) < free.total(members)


def test_the_order_says_how_weaves_are_paced() -> None:
    assert pacing("fair", "none", ordering="best", matched=True) == Rates("fair")
    assert pacing("fifo", "muri", ordering="best", matched=True) == Rates("fifo", FACTORS)
    assert pacing("slots", "muri", ordering="worst", matched=True) == Pace("worst", FACTORS)
    free = pacing("slots", "none", ordering="best", matched=True)
    assert free.iterations_s(measured("gpt2", "bert"))[0] * FACTORS[2] == pytest.approx(
        Pace().iteration_s(measured("gpt2", "bert"))
    )


def test_sets_are_remembered_although_measurements_differ_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Rates()
    known.total([Profile("a", 1.0, 0.5, 0.3, 0.2), Profile("b", 1.0, 0.2, 0.5, 0.3)])
    monkeypatch.setattr(rates, "iteration_rates", None)
    known.total([Profile("c", 1.0, 0.2003, 0.5003, 0.3003), Profile("d", 1.0, 0.5003, 0.3003, 0.2003)])


def test_members_without_any_time_have_a_rate() -> None:
    """Profiles of old journals may say so; new ones are refused."""
    none, some = Profile("none", 1e-13, 0.0, 1e-13, 0.0), Profile("some", 0.3, 0.1, 0.1, 0.1)
    assert all(0 < seconds < 1 for seconds in Rates().iterations_s([none, some]))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_estimates_are_close_to_what_the_model_computes(size: int) -> None:
    draws, known = Random(size), Rates()
    errors = []
    for _ in range(150):
        stages = [[draws.uniform(0.01, 0.5) for _ in range(3)] for _ in range(size)]
        members = [Profile("any", sum(each), each[0], each[1], each[2]) for each in stages]
        errors.append((known.estimate(members) or 1.0) / (known.value(members) or 1.0) - 1)
    assert abs(fmean(errors)) < 0.05
    assert sorted(map(abs, errors))[len(errors) * 8 // 10] < 0.1, "for most sets"
    assert max(map(abs, errors)) < 0.6


# ---- the published table: the total and the worst member, in parts of their speed alone, over all sets of 8 models

TABLE: dict[tuple[int, int, Tokens, float], tuple[float, float]] = {
    (2, 8, "fair", 0.0): (2.20, 1.00),
    (3, 8, "fair", 0.0): (2.72, 0.72),
    (4, 8, "fair", 0.0): (3.00, 0.52),
    (4, 1, "fair", 0.0): (2.30, 0.45),
    (2, 8, "fifo", 0.0): (2.20, 1.00),
    (3, 8, "fifo", 0.0): (2.66, 0.72),
    (2, 8, "shared", 0.0): (2.10, 0.95),
    (3, 8, "shared", 0.15): (2.46, 0.64),
    (2, 8, "shared", 0.3): (2.00, 0.90),
}


def table_row(size: int, gpus: int, how: Tokens, loss: float) -> Iterator[tuple[float, float]]:
    models = [profiles.profile(model, gpus) for model in profiles.MODELS]
    for members in combinations_with_replacement(models, size):
        found = iteration_rates(stages_of(members), how, loss)
        alone = [rate * p.iteration_s / profiles.CONTENTION for rate, p in zip(found, members, strict=True)]
        yield sum(alone), min(alone)


@pytest.mark.parametrize(("row", "expected"), TABLE.items(), ids=lambda row: "-".join(map(str, row)))
def test_the_means_of_all_sets_are_the_published_ones(
    row: tuple[int, int, Tokens, float], expected: tuple[float, float]
) -> None:
    totals, worst = zip(*table_row(*row), strict=True)
    assert fmean(totals) == pytest.approx(expected[0], rel=0.02)
    assert fmean(worst) == pytest.approx(expected[1], rel=0.03)
