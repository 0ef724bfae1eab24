"""The iteration time of woven jobs: every member does one iteration per cycle.

A cycle has four slots. A member's data stage (storage and CPU) spans two, its GPU and its network stage one each, and
the members are one slot apart. The rules and the contention factors come from Muri's simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from math import fsum, isclose
from typing import Literal

from weft.model import Profile

SLOTS = 4
SOLO_FACTOR = 1.015
"""Contention that a solo iteration time already includes."""
FACTORS = {2: 1.33 / SOLO_FACTOR, 3: 1.5 / SOLO_FACTOR, 4: 1.37 / SOLO_FACTOR}
GREEDY_FACTORS = {**FACTORS, 4: 1.30 / SOLO_FACTOR}
"""The original's factors for groups that are formed by priority instead of matching."""

Stages = tuple[float, float, float]
"""Data, GPU and network time."""


@dataclass(frozen=True)
class Pace:
    """The iteration times of weaves, cached by multiset of profiles."""

    ordering: Literal["best", "worst"] = "best"
    factors: dict[int, float] = field(default_factory=lambda: FACTORS)
    _known: dict[tuple[Profile, ...], float] = field(default_factory=dict, compare=False, repr=False)

    def iteration_s(self, members: Sequence[Profile]) -> float:
        """Return the seconds per iteration, which are the same for every member."""
        if len(members) == 1:
            return members[0].iteration_s
        key = tuple(sorted(members, key=_by_value))
        seconds = self._known.get(key)
        if seconds is None:
            stages = tuple((p.data_s, p.gpu_s, p.network_s) for p in key)
            seconds = self._known[key] = cycle_s(stages, self.ordering) * self.factors[len(key)]
        return seconds

    def iterations_s(self, members: Sequence[Profile]) -> tuple[float, ...]:
        """Return the same for each member."""
        return (self.iteration_s(members),) * len(members)

    def estimated_iterations_s(self, members: Sequence[Profile]) -> tuple[float, ...]:
        return self.iterations_s(members)

    def value(self, members: Sequence[Profile]) -> float | None:
        """Return the worth of a weave to the matching, which also considers weaves that do not pay."""
        return self.efficiency(members)

    def pays(self, members: Sequence[Profile]) -> bool:
        return not self.worse_than_in_turn(members)

    def places(self, members: Sequence[Profile]) -> tuple[int, ...]:
        """Return the members, by number, in the order of their places in the cycle."""
        return cycle_order(tuple((p.data_s, p.gpu_s, p.network_s) for p in members), self.ordering)

    def is_known(self, _members: Sequence[Profile]) -> bool:
        return True  # it takes a few microseconds

    def estimate(self, members: Sequence[Profile]) -> float | None:
        return self.value(members)

    def efficiency(self, members: Sequence[Profile]) -> float:
        """Return the fraction of the four slots' time that the members' stages fill."""
        work = fsum(stage for p in members for stage in (p.data_s, p.gpu_s, p.network_s))
        return work / (SLOTS * self.iteration_s(members))

    def worse_than_in_turn(self, members: Sequence[Profile]) -> bool:
        """Return whether the members would finish sooner one after the other, even in the best ordering."""
        if len(members) == 1:
            return False
        best = self if self.ordering == "best" else Pace("best", self.factors)
        return best.iteration_s(members) > fsum(p.iteration_s for p in members)


def _by_value(profile: Profile) -> tuple[str, float, float, float, float]:
    return profile.model, profile.iteration_s, profile.data_s, profile.gpu_s, profile.network_s


@cache
def cycle_s(members: tuple[Stages, ...], ordering: str) -> float:
    """Return the cycle of the best or the worst ordering of the members, without contention."""
    times = [_ordered_cycle_s(order) for order in set(permutations(members))]
    if len(members) == 2:
        (d0, g0, n0), (d1, g1, n1) = members
        times.append(max(d0, g1 + n1) + max(d1, g0 + n0))
    return min(times) if ordering == "best" else max(times)


@cache
def cycle_order(members: tuple[Stages, ...], ordering: str) -> tuple[int, ...]:
    """Return the best or the worst ordering of the members, as numbers."""
    choose = min if ordering == "best" else max
    orders = permutations(range(len(members)))
    return choose(orders, key=lambda order: _ordered_cycle_s(tuple([members[number] for number in order])))


@cache
def _steps(members: int) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """Return, for each of the first eight slots, the stages that end with it: the slot they start with, the place of
    their member, and their number."""
    return tuple([
        tuple([
            (start, place % SLOTS, stage)
            for start, place, stage in ((slot, slot + 1, 2), (slot, slot + 2, 1), (slot - 1, slot + 3, 0))
            if start >= 0 and place % SLOTS < members
        ])
        for slot in range(2 * SLOTS)
    ])  # fmt: skip


def _ordered_cycle_s(order: tuple[Stages, ...]) -> float:
    """Return the steady cycle of one ordering, from the ends of the first eight slots."""
    ends = [0.0]
    for slot, steps in enumerate(_steps(len(order))):
        end = 0.0
        for start, place, stage in steps:
            at = ends[start] + order[place][stage]
            if at > end:
                end = at
        ends.append(end)
        if slot >= SLOTS:
            cycle, before = end - ends[slot - 3], ends[slot] - ends[slot - 4]
            if isclose(cycle, before, rel_tol=1e-3):
                return cycle
    return ends[2 * SLOTS] - ends[SLOTS]
