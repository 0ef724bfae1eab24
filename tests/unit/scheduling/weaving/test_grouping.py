"""Groups of many jobs with different profiles: a plan computes a bounded number of sets, and estimates the others."""

from __future__ import annotations

from random import Random

import pytest

from weft.model import Profile
from weft.scheduling.weaving import grouping, rates
from weft.scheduling.weaving.grouping import Group, Weaver
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates


def profiles(count: int) -> list[Profile]:
    draws = Random(count)
    found = [[draws.uniform(0.01, 0.5) for _ in range(3)] for _ in range(count)]
    return [Profile("any", sum(each), each[0], each[1], each[2]) for each in found]


class Computed:
    """Counts the sets whose rates are computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sets = 0
        compute = rates.iteration_rates

        def count(*words: object) -> tuple[float, ...]:
            self.sets += 1
            return compute(*words)  # type: ignore[arg-type]

        monkeypatch.setattr(rates, "iteration_rates", count)


def plan(weaver: Weaver, members: list[Profile], gpus: int) -> list[Group[int]]:
    weaver.begin()
    singles = [weaver.single(at, profile) for at, profile in enumerate(members)]
    groups = weaver.match([(1, singles)], gpus)
    assert sorted(member for group in groups for member in group.members) == list(range(len(members)))
    return groups


def test_many_different_jobs_are_woven_by_estimates_that_later_plans_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MAX_COMPUTED", 40)
    computed, weaver, members = Computed(monkeypatch), Weaver(Rates(), 4), profiles(100)
    groups = plan(weaver, members, 25)
    assert len(groups) == 25, "all of them are woven"
    assert 0 < computed.sets <= 40
    for _ in range(3):
        before = computed.sets
        plan(weaver, members, 25)
        assert before < computed.sets <= before + 40
    weaver.begin()
    paying = [group for group in groups if not weaver.worse_than_in_turn(group.kind)]
    assert len(paying) > 20


def test_few_kinds_of_jobs_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, weaver, members = Computed(monkeypatch), Weaver(Rates(), 4), profiles(6) * 20
    first = plan(weaver, members, 30)
    before = computed.sets
    assert plan(weaver, members, 30) == first
    assert computed.sets == before


@pytest.mark.parametrize("pace", [Rates(), Pace()], ids=["tokens", "slots"])
def test_a_weaver_forgets_kinds_that_become_too_many(pace: Rates | Pace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new measurement of a profile is another kind."""
    monkeypatch.setattr(grouping, "MAX_PAIRS", 200)
    monkeypatch.setattr(grouping, "MAX_COMPUTED", 10)
    weaver = Weaver(pace, 2)
    for count in range(20, 40):
        plan(weaver, profiles(count), count // 2)
        assert len(weaver._profiles) <= 240
        assert len(weaver._worth) + len(weaver._estimates) <= 200 + count * count
