"""Muri's lock-step: four members whose stages follow the slots have the cycle that Muri's own recurrence gives."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.scheduling.weaving.pace import _ordered_cycle_s
from weft.train.weave import state
from weft.train.weave.layout import DATA, GPU, NET, create

CYCLES = 30
SECONDS = st.floats(0.01, 1.0)
Stages = tuple[float, float, float]


def simulate(members: list[Stages], order: str) -> list[float]:
    """Return the seconds per step of each member, in the steady state of a simulated weave."""
    raw, ready = create(order, len(members), 1e6), list[tuple[float, int, int]]()
    for place in range(len(members)):
        raw, _ = state.join(raw, place, 0.0)
    steps: list[list[float]] = [[] for _ in members]

    def begin(now: float, place: int, stage: int) -> None:
        heapq.heappush(ready, (now + members[place][stage], place, stage))

    def want(raw: bytes, now: float, place: int, stage: int) -> bytes:
        raw, wakes, _, held = state.want(raw, place, stage, now)
        for each, other, _ in wakes:
            begin(now, each, other)
        if held:
            begin(now, place, stage)
        return raw

    for place in range(len(members)):
        raw = want(raw, 0.0, place, DATA)
    while min(map(len, steps)) < CYCLES:
        now, place, stage = heapq.heappop(ready)
        raw, wakes, passed_over = state.release(raw, place, stage, now)
        assert not passed_over
        for each, other, _ in wakes:
            begin(now, each, other)
        if stage == NET:
            steps[place].append(now)
        raw = want(raw, now, place, {DATA: GPU, GPU: NET, NET: DATA}[stage])
    return [(each[-1] - each[CYCLES // 2]) / (len(each) - 1 - CYCLES // 2) for each in steps]


@settings(max_examples=25, deadline=None)
@given(members=st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=4, max_size=4))
def test_four_members_have_muris_cycle(members: list[Stages]) -> None:
    found = simulate(members, "slots")
    assert max(found) == pytest.approx(min(found), rel=0.01), "all members advance in step"
    assert found[0] == pytest.approx(_ordered_cycle_s(tuple(members)), rel=0.02)


@settings(max_examples=25, deadline=None)
@given(members=st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=2, max_size=4))
def test_no_order_takes_longer_than_one_after_the_other(members: list[Stages]) -> None:
    in_turn_s = sum(map(sum, members))
    for order in ("fair", "fifo", "slots"):
        assert max(simulate(members, order)) <= 1.05 * in_turn_s
