"""The protocol's lock-step keeps the pace that the model of a weave predicts, with the members in their best places."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count

import pytest

from support.builders import profile
from weft.model import Profile
from weft.scheduling.weaving.pace import Pace
from weft.train.weave import layout, state

DATA, GPU, NET, EVEN, SHORT = (
    profile(8, 1, 1),
    profile(0.5, 6, 1),
    profile(1, 1, 5),
    profile(2, 3, 2),
    profile(0.5, 0.5, 0.5),
)
WITHOUT_CONTENTION = dict.fromkeys((2, 3, 4), 1.0)
ITERATIONS = 30


def cycle_by_protocol(members: Sequence[Profile]) -> float:
    """Return the mean time of an iteration of the members, in the order of their places, by the pure protocol."""
    raw, now, order = layout.create("slots", len(members), 1000.0), 0.0, count()
    stages = [(each.data_s, each.gpu_s, each.network_s) for each in members]
    ends: list[tuple[float, int, int, int]] = []
    finished: list[list[float]] = [[] for _ in members]

    def begin(place: int, stage: int) -> None:
        heapq.heappush(ends, (now + stages[place][stage], next(order), place, stage))

    def want(place: int, stage: int) -> None:
        nonlocal raw
        raw, wakes, _, held = state.want(raw, place, stage, now)
        for other, granted, _ in wakes:
            begin(other, granted)
        if held:
            begin(place, stage)

    for place in range(len(members)):
        raw, _ = state.join(raw, place, now)
    for place in range(len(members)):
        want(place, 0)
    while min(map(len, finished)) < ITERATIONS:
        now, _, place, stage = heapq.heappop(ends)
        raw, wakes, _ = state.release(raw, place, stage, now)
        for other, granted, _ in wakes:
            begin(other, granted)
        if stage == 2:
            finished[place].append(now)
        want(place, (stage + 1) % 3)
    half = ITERATIONS // 2
    return max((times[ITERATIONS - 1] - times[half]) / (ITERATIONS - 1 - half) for times in finished)


@pytest.mark.parametrize(
    "members",
    [(DATA, GPU, NET), (DATA, DATA, GPU), (DATA, DATA, GPU, GPU), (DATA, GPU, DATA, NET), (EVEN, DATA, EVEN, GPU)],
    ids=["three", "two-data", "two-data-two-gpu", "data-apart", "even"],
)
def test_members_in_their_places_keep_the_predicted_pace(members: tuple[Profile, ...]) -> None:
    pace = Pace("best", WITHOUT_CONTENTION)
    placed = [members[number] for number in pace.places(members)]
    assert cycle_by_protocol(placed) == pytest.approx(pace.iteration_s(members), rel=2e-3)


def test_the_order_of_places_matters() -> None:
    """Two jobs that load data for long do so at the same time only in adjacent places."""
    pace = Pace("best", WITHOUT_CONTENTION)
    members = (DATA, SHORT, DATA, SHORT)
    worst = [members[number] for number in Pace("worst", WITHOUT_CONTENTION).places(members)]
    assert cycle_by_protocol(worst) > 1.2 * pace.iteration_s(members)
