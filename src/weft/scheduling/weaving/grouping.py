"""Muri's grouping: pairs the most complementary jobs, then the pairs, until all candidates fit the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from weft.model import Profile
from weft.scheduling.weaving.matching import match
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates

MAX_REMEMBERED: Final = 10_000
"""The most entries of each cache of a weaver."""
MAX_PAIRS: Final = 100_000
"""The most profiles and pairs of groups that a weaver knows from one plan to the next."""
MAX_COMPUTED: Final = 300
"""The most sets whose rates one plan computes, in a third of a second. It estimates the others: jobs that each have
their own measured profile make thousands of sets."""
Member = TypeVar("Member")
Kind = tuple[int, ...]
"""The sorted numbers of the members' profiles. Empty: the job must not be woven."""


@dataclass(slots=True)
class Group(Generic[Member]):
    """Members that are woven together, or a single member."""

    members: tuple[Member, ...]
    kind: Kind


@dataclass
class Weaver:
    """Builds groups of up to `packing` members, and remembers the efficiency of each pair of kinds."""

    pace: Pace | Rates
    packing: int
    _numbers: dict[Profile, int] = field(default_factory=dict)
    _profiles: list[Profile] = field(default_factory=list)
    _kinds: dict[int, tuple[Profile, Kind]] = field(default_factory=dict)
    """The kinds of single jobs by the identity of their profiles, because hashing a profile takes longer."""
    _slow: dict[Kind, bool] = field(default_factory=dict)
    _worth: dict[tuple[Kind, Kind], float | None] = field(default_factory=dict)
    _estimates: dict[tuple[Kind, Kind], float | None] = field(default_factory=dict)
    """Worths of pairs that later plans compute."""
    _left: int = MAX_COMPUTED
    """The number of sets that this plan may still compute."""
    _matched: dict[tuple[Kind, ...], list[tuple[int, int]]] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a plan. Forget everything if there is too much of it: each new measurement of a profile is a kind."""
        self._left = MAX_COMPUTED
        if max(len(self._profiles), len(self._worth) + len(self._estimates)) > MAX_PAIRS:
            self._numbers.clear()
            self._profiles.clear()
            for cache in (self._kinds, self._slow, self._worth, self._estimates, self._matched):
                cache.clear()

    def single(self, member: Member, profile: Profile | None) -> Group[Member]:
        if profile is None:
            return Group((member,), ())
        known = self._kinds.get(id(profile))
        if known is None:
            if len(self._kinds) > MAX_REMEMBERED:
                self._kinds.clear()
            number = self._numbers.setdefault(profile, len(self._profiles))
            if number == len(self._profiles):
                self._profiles.append(profile)
            known = self._kinds[id(profile)] = profile, (number,)
        return Group((member,), known[1])

    def worse_than_in_turn(self, kind: Kind) -> bool:
        """Return whether it does not pay to weave jobs of these profiles: they would do better one after the other."""
        slow = self._slow.get(kind)
        if slow is None:
            if len(self._slow) > MAX_REMEMBERED:
                self._slow.clear()
            profiles = self.profiles(kind)
            if not self._may_compute(profiles):
                return self.pace.estimate(profiles) is None
            slow = self._slow[kind] = not self.pace.pays(profiles)
        return slow

    def profiles(self, kind: Kind) -> list[Profile]:
        return [self._profiles[number] for number in kind]

    def match(self, buckets: Sequence[tuple[int, list[Group[Member]]]], gpus: int) -> list[Group[Member]]:
        """Match groups in each bucket (GPUs per group, groups) in rounds, while all together need more than `gpus`."""
        need = sum(size * len(groups) for size, groups in buckets)
        lists = [groups for _, groups in buckets]
        for _ in range(self.packing):
            if need <= gpus:
                break
            for place, (size, _) in enumerate(buckets):
                if need > gpus:
                    lists[place], need = self._round(lists[place], size, need, gpus)
        return [group for groups in lists for group in groups]

    def group_in_order(self, buckets: Sequence[tuple[int, list[Group[Member]]]], gpus: int) -> list[Group[Member]]:
        """Weave neighbours in order, without matching, while the groups together need more than `gpus`."""
        need = sum(size * len(groups) for size, groups in buckets)
        result: list[Group[Member]] = []
        for size, groups in buckets:
            open_group: Group[Member] | None = None
            for group in groups:
                joins = open_group is not None and open_group.kind and group.kind
                if open_group is not None and joins and need > gpus and len(open_group.members) < self.packing:
                    open_group.members += group.members
                    open_group.kind = tuple(sorted(open_group.kind + group.kind))
                    need -= size
                else:
                    open_group = Group(group.members, group.kind)
                    result.append(open_group)
        return result

    def _round(self, groups: list[Group[Member]], size: int, need: int, gpus: int) -> tuple[list[Group[Member]], int]:
        """Merge matched pairs while GPUs are short. A pair takes the position of its later member."""
        partner = {later: earlier for earlier, later in self._pairs(tuple(group.kind for group in groups))}
        earlier_ones, merged = set(partner.values()), []
        for place, group in enumerate(groups):
            if place in partner:
                other = groups[partner[place]]
                if need > gpus:
                    merged.append(Group(other.members + group.members, tuple(sorted(other.kind + group.kind))))
                    need -= size
                else:
                    merged += [other, group]
            elif place not in earlier_ones:
                merged.append(group)
        return merged, need

    def _pairs(self, kinds: tuple[Kind, ...]) -> list[tuple[int, int]]:
        pairs = self._matched.get(kinds)
        if pairs is None:
            if len(self._matched) > MAX_REMEMBERED:
                self._matched.clear()
            worth: Callable[[Hashable, Hashable], float | None] = self._value  # type: ignore[assignment]
            pairs = match(kinds, worth)
            if self._left:  # no worth was estimated
                self._matched[kinds] = pairs
        return pairs

    def _value(self, left: Kind, right: Kind) -> float | None:
        """Return the efficiency of two groups woven into one; None if they must not be woven."""
        key = (left, right)
        if key in self._worth:
            return self._worth[key]
        if not (left and right and len(left) + len(right) <= self.packing):
            self._worth[key] = None
        elif not self._left and key in self._estimates:
            return self._estimates[key]
        else:
            profiles = self.profiles(left + right)
            if not self._may_compute(profiles):
                worth = self._estimates[key] = self.pace.estimate(profiles)
                return worth
            self._worth[key] = self.pace.value(profiles)
            self._estimates.pop(key, None)
        return self._worth[key]

    def _may_compute(self, profiles: Sequence[Profile]) -> bool:
        """Return whether this plan computes the rates of these members, if they are not known."""
        if self.pace.is_known(profiles):
            return True
        self._left = max(self._left - 1, 0)
        return self._left > 0
