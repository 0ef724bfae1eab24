"""Prices of work, tables of groups, and the choice of groups by density."""

from __future__ import annotations

import functools
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.builders import profile
from weft.model import Profile
from weft.scheduling.weaving.groups import MAX_PROFILES, GroupRates, GroupTables, build_table
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.prices import PriceList, price_work
from weft.scheduling.weaving.rates import Rates
from weft.scheduling.weaving.simplex import maximise
from weft.sim.traces.profiles import MODELS
from weft.sim.traces.profiles import profile as real_profile

DATA, GPU, NET = profile(0.9, 0.05, 0.05), profile(0.05, 0.9, 0.05), profile(0.05, 0.05, 0.9)


def test_prices_of_two_kinds_worked_out_by_hand() -> None:
    """Alone each does 1; together both do 0.8. Equal work is dearest at 1 / 1.6 = 0.625 each. With much more work of
    the first, it costs 1, and the second what is left of the weave: (1 - 0.8) / 0.8 = 0.25."""
    rates = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.8]])
    assert price_work(rates, np.array([1.0, 1.0])) @ [1, 1] == pytest.approx(1.25)
    assert price_work(rates, np.array([9.0, 1.0])) == pytest.approx([1.0, 0.25])


@given(st.lists(st.floats(0.0, 1e6), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_no_group_does_more_than_a_gpu_second_a_second(work_s: list[float]) -> None:
    table = build_table([DATA, GPU, NET], GroupRates(Pace()))
    prices = price_work(table.rates_by_kind, np.array(work_s))
    assert (table.rates_by_kind @ prices).max() <= 1 + 1e-9
    assert prices.min() >= 0


def test_prices_depend_on_the_mix_alone_and_ignore_kinds_without_work() -> None:
    rates = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.8]])
    listed, other = PriceList(rates), PriceList(rates)
    listed.prices([1.0, 100.0])
    assert listed.prices([500.0, 500.0]).tolist() == other.prices([1.0, 1.0]).tolist()
    assert listed.prices([7.0, 0.0]).tolist() == [1.0, 0.0]


@given(st.lists(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=3), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_a_known_corner_is_used_only_where_it_is_the_best(mixes: list[list[float]]) -> None:
    rates = build_table([DATA, GPU, NET], GroupRates(Pace())).rates_by_kind
    listed = PriceList(rates, floor=0.0)
    for mix in mixes:
        found = listed.prices(mix)
        assert found.tolist() == PriceList(rates, floor=0.0).prices(mix).tolist()
        assert (rates @ found).max() <= 1 + 1e-9


@functools.cache
def _real_rates(gpus: int) -> NDArray[np.float64]:
    """The rates of the models of real traces under fair tokens: many constraints are nearly equal."""
    return build_table([real_profile(model, gpus) for model in MODELS], GroupRates(Rates())).rates_by_kind


@given(st.sampled_from((1, 2, 4, 8, 16)), st.integers(7, 8), st.lists(st.integers(-5, 5), min_size=8, max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_tight_constraints_of_a_corner_are_independent(gpus: int, kinds: int, octaves: list[int]) -> None:
    rates = _real_rates(gpus)
    rates = rates[~rates[:, kinds:].any(axis=1)][:, :kinds]
    work = 2.0 ** (np.array(octaves[:kinds]) / 2)
    corner = maximise(work / work.max(), rates, np.ones(len(rates)))
    tight = np.concatenate((-np.eye(kinds), rates))[corner.tight]
    assert np.linalg.matrix_rank(tight) == kinds
    assert (rates @ corner.x).max() <= 1 + 1e-6
    assert tight @ corner.x == pytest.approx(np.where(corner.tight < kinds, 0.0, 1.0), abs=1e-6)


def test_a_table_has_each_group_that_pays_once() -> None:
    table = build_table([DATA, GPU, None], GroupRates(Pace()))
    assert table.sizes.tolist()[:3] == [1, 1, 1]
    for members in (2, 3, 4):
        for group in combinations_with_replacement((0, 1), members):
            profiles = [(DATA, GPU)[at] for at in group]
            row = table.row_of(group)
            assert (row is not None) == Pace().pays(profiles)
            if row is not None:
                rates = [p.iteration_s / Pace().iteration_s(profiles) for p in profiles]
                assert [rate for _, rate in table.members(row)] == pytest.approx(rates)
    assert table.row_of((0, 2)) is None  # a job without a profile is not woven


def test_under_tokens_each_member_has_its_own_rate() -> None:
    table = build_table([DATA, GPU], GroupRates(Rates()))
    row = table.row_of((0, 1))
    assert row is not None
    times = Rates().iterations_s([DATA, GPU])
    assert [rate for _, rate in table.members(row)] == pytest.approx([1 / times[0], 1 / times[1]])


def test_many_profiles_count_as_few() -> None:
    many = [Profile(f"m{at}", 1.0, 0.1 + at / 100, 0.5, 0.1) for at in range(40)]
    table, kinds = GroupTables(Pace()).table(many)
    assert len(table.kinds) <= MAX_PROFILES
    assert len(kinds) == len(many)
    assert kinds[0] != kinds[-1]


def test_a_table_has_the_kinds_of_the_jobs_that_are_there_and_no_others() -> None:
    """Otherwise a scheduler that restarts would count other profiles as one than the scheduler before it."""
    tables = GroupTables(Pace())
    many = [Profile(f"m{at}", 1.0, 0.1 + at / 100, 0.5, 0.1) for at in range(40)]
    tables.table(many)
    table, kinds = tables.table(many[:3])
    assert table.kinds == tuple(many[:3])
    assert kinds == [0, 1, 2]
    assert tables.table([many[2], many[0], many[1]]) == (table, [2, 0, 1])  # it is not built again
