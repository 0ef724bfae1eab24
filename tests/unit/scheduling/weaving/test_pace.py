"""The duration of a woven iteration, computed by hand from Muri's slots."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import profile
from weft.model import Profile
from weft.scheduling.weaving.pace import FACTORS, GREEDY_FACTORS, Pace

TWO, THREE, FOUR = 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015
A, B, C = profile(4, 1, 1), profile(1, 3, 1), profile(1, 1, 2)
EVEN = profile(2, 1, 1)

stage = st.floats(0.001, 1.0)
profiles = st.builds(lambda d, g, n, solo: profile(d, g, n, solo=solo), stage, stage, stage, stage)


def test_the_factors_are_muris() -> None:
    assert pytest.approx({2: TWO, 3: THREE, 4: FOUR}) == FACTORS
    assert pytest.approx({2: TWO, 3: THREE, 4: 1.30 / 1.015}) == GREEDY_FACTORS


def test_alone_it_is_the_solo_time() -> None:
    assert Pace().iteration_s([profile(4, 1, 1, solo=5)]) == 5


def test_two() -> None:
    """f4 = max(d0 + g0, n1 + d1) + max(n0, g1): A first max(5, 2) + max(1, 3) = 8, B first max(4, 5) + max(1, 1) = 6;
    in step: max(d0, g1 + n1) + max(d1, g0 + n0) = max(4, 4) + max(1, 2) = 6."""
    assert Pace("best").iteration_s([A, B]) == pytest.approx(6 * TWO)
    assert Pace("worst").iteration_s([A, B]) == pytest.approx(8 * TWO)


def test_two_where_in_step_is_best() -> None:
    """d, g, n = 3, 3, 0 twice: max(6, 3) + max(0, 3) = 9 either way; in step max(3, 3) + max(3, 3) = 6."""
    assert Pace().iteration_s([profile(3, 3, 0), profile(3, 3, 0)]) == pytest.approx(6 * TWO)


def test_three() -> None:
    """Slots end f1 = max(n1, g2), f2 = max(f1 + n2, d0), f3 = max(f2 + g0, f1 + d1),
    f4 = max(f3 + n0, f3 + g1, f2 + d2), and the cycle is f4. The six orderings:
    A B C: 1, max(3, 4) = 4, max(5, 2) = 5, max(6, 8, 5) = 8
    A C B: max(2, 3) = 3, max(4, 4) = 4, max(5, 4) = 5, max(6, 6, 5) = 6
    B A C: 1, max(3, 1) = 3, max(6, 5) = 6, max(7, 7, 4) = 7
    B C A: 2, max(3, 1) = 3, max(6, 3) = 6, max(7, 7, 7) = 7
    C A B: max(1, 3) = 3, max(4, 1) = 4, max(5, 7) = 7, max(9, 8, 5) = 9
    C B A: max(1, 1) = 1, max(2, 1) = 2, max(3, 2) = 3, max(5, 6, 6) = 6"""
    assert Pace("best").iteration_s([A, B, C]) == pytest.approx(6 * THREE)
    assert Pace("worst").iteration_s([A, B, C]) == pytest.approx(9 * THREE)


def test_four_alike() -> None:
    """2, 1, 1: slots end at 1, 2, 3, 4, 5: a cycle of 4, each resource always busy with one of them."""
    assert Pace().iteration_s([EVEN] * 4) == pytest.approx(4 * FOUR)
    assert Pace("best", GREEDY_FACTORS).iteration_s([EVEN] * 4) == pytest.approx(4 * 1.30 / 1.015)


def test_four_that_wait_for_data() -> None:
    """4, 1, 1: f1 = 1, f2 = max(2, 2, 4) = 4, f3 = max(5, 5, 1 + 4) = 5, f4 = max(6, 6, 4 + 4) = 8,
    f5 = max(9, 9, 5 + 4) = 9: 9 - 1 = 8 - 0."""
    assert Pace().iteration_s([A] * 4) == pytest.approx(8 * FOUR)


def test_efficiency_is_work_over_four_slots() -> None:
    assert Pace().efficiency([A, B]) == pytest.approx((6 + 5) / (4 * 6 * TWO))
    assert Pace().efficiency([EVEN] * 4) == pytest.approx(16 / (4 * 4 * FOUR))


@pytest.mark.parametrize(("solo_s", "worse"), [(6 * TWO / 2 - 0.01, True), (6 * TWO / 2 + 0.01, False)])
def test_in_turn_is_better_when_it_takes_less(solo_s: float, worse: bool) -> None:
    pair = [profile(4, 1, 1, solo=solo_s), profile(1, 3, 1, solo=solo_s)]
    assert Pace().worse_than_in_turn(pair) == worse
    assert Pace("worst").worse_than_in_turn(pair) == worse, "the best ordering is asked about"


@given(members=st.lists(profiles, min_size=2, max_size=4))
def test_the_order_of_the_members_does_not_matter(members: list[Profile]) -> None:
    assert len({Pace().iteration_s(list(order)) for order in permutations(members)}) == 1


@given(members=st.lists(profiles, min_size=2, max_size=4))
def test_the_best_is_no_worse_than_the_worst(members: list[Profile]) -> None:
    assert Pace("best").iteration_s(members) <= Pace("worst").iteration_s(members)
