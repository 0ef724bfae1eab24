"""Tables of all groups of jobs that may share GPUs: the rate of each member, for each multiset of profiles.

Only jobs that need the same resources are woven, so there is a table for each set of profiles of one shape. Its size
grows with the fourth power of the number of profiles: profiles that are alike count as one beyond `MAX_PROFILES`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import exp, log
from typing import TYPE_CHECKING, Final

from weft.model import Profile
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.prices import PriceList
from weft.scheduling.weaving.rates import LEAST_TOTAL, Rates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.intp]

PACKING: Final = 4
"""The largest number of jobs in a weave."""
MAX_PROFILES: Final = 12
"""With more profiles in one table, profiles that are alike count as one. 12 profiles make 1,819 groups."""
COARSER: Final = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0)
"""Profiles count as one if their times are equal after rounding to powers of the first of these that is enough."""
MIN_TIME_S: Final = 1e-4
"""Shorter stages are taken to be this long when profiles are compared."""
EXACT_MEMBERS: Final = 2
"""Under tokens, rates of larger groups are estimated: to compute those of all groups takes two seconds."""
MAX_TABLES: Final = 512
"""The number of tables that are kept: those used last. A table of 8 kinds takes 0.2 MB."""
MAX_RATES: Final = 100_000
"""The most groups whose rates are remembered."""


MAX_SEATS: Final = 4096
"""The most groups of a table whose seats are remembered."""

Seats = tuple[int, tuple[tuple[int, float], ...]]
"""The row of a group in its table, and its members as in that row: the place of each among given jobs, and its rate."""


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The groups of some kinds of jobs. A kind is a profile, or None for jobs that are not woven."""

    kinds: tuple[Profile | None, ...]
    columns: Indices
    """For each group, its members as `kind * PACKING + n`: the n-th job of that kind. Groups with fewer members are
    filled up with the last column, which stands for no job."""
    rates: Numbers
    """The solo seconds that each member does per second, in the same order; 0 for no job."""
    start_s: Numbers
    """The start-up times of all members together."""

    @cached_property
    def sizes(self) -> Numbers:
        """The number of members of each group."""
        import numpy as np

        return np.asarray((self.columns < len(self.kinds) * PACKING).sum(axis=1), dtype=float)

    @cached_property
    def concentration(self) -> Numbers:
        """For each group, the sum of its members' rates less a half for each: more for few members at a high rate."""
        import numpy as np

        return np.asarray(self.rates.sum(axis=1) - self.sizes / 2)

    @cached_property
    def rates_by_column(self) -> Numbers:
        """For each group and column, the rate of the member in that column."""
        import numpy as np

        found = np.zeros((len(self.rates), self.none + 1))
        found[np.repeat(np.arange(len(self.rates)), PACKING), self.columns.ravel()] = self.rates.ravel()
        found[:, self.none] = 0.0
        return found

    @cached_property
    def rates_by_kind(self) -> Numbers:
        """For each group and kind, the solo seconds done per second by all members of that kind."""
        import numpy as np

        found = np.zeros((len(self.rates), len(self.kinds) + 1))
        rows = np.repeat(np.arange(len(self.rates)), PACKING)
        np.add.at(found, (rows, (self.columns // PACKING).ravel()), self.rates.ravel())
        return found[:, :-1]

    @cached_property
    def price_list(self) -> PriceList:
        return PriceList(self.rates_by_kind)

    @cached_property
    def _members(self) -> list[tuple[tuple[int, float], ...]]:
        rows, none = zip(self.columns.tolist(), self.rates.tolist(), strict=True), self.none
        return [tuple([(c, r) for c, r in zip(*row, strict=True) if c < none]) for row in rows]

    @cached_property
    def _rows(self) -> dict[tuple[int, ...], int]:
        return {tuple([c // PACKING for c, _ in row]): at for at, row in enumerate(self._members)}

    def members(self, row: int) -> tuple[tuple[int, float], ...]:
        """Return the columns of a group's members, and their rates."""
        return self._members[row]

    @property
    def none(self) -> int:
        """The column that stands for no job."""
        return len(self.kinds) * PACKING

    def row_of(self, kinds: Iterable[int]) -> int | None:
        """Return the group with members of these kinds, the lowest first; None if it does not pay."""
        return self._rows.get(tuple(kinds))

    @cached_property
    def _seats(self) -> dict[tuple[int, ...], Seats | None]:
        return {}

    def seats(self, kinds: tuple[int, ...]) -> Seats | None:
        """Return the group with members of these kinds, in any order; None if it does not pay."""
        try:
            return self._seats[kinds]
        except KeyError:
            if len(self._seats) >= MAX_SEATS:
                self._seats.clear()
        places = sorted(range(len(kinds)), key=kinds.__getitem__)  # members of one kind stay in order
        row, found = self.row_of([kinds[place] for place in places]), None
        if row is not None:
            found = row, tuple([(place, rate) for place, (_, rate) in zip(places, self._members[row], strict=True)])
        self._seats[kinds] = found
        return found


class GroupRates:
    """The rates of groups of profiles, remembered by the profiles' numbers."""

    def __init__(self, pace: Pace | Rates) -> None:
        self._pace = pace
        self._numbers: dict[Profile, int] = {}
        self._known: dict[tuple[int, ...], list[float] | None] = {}
        self._least_total = LEAST_TOTAL if isinstance(pace, Rates) else 1.0

    def numbers(self, profiles: Sequence[Profile | None]) -> list[int]:
        """Return the numbers of these profiles, until the next call."""
        if len(self._known) > MAX_RATES:
            self._known.clear()
            self._numbers.clear()
        return [-1 if each is None else self._numbers.setdefault(each, len(self._numbers)) for each in profiles]

    def of(self, key: tuple[int, ...], profiles: Sequence[Profile]) -> list[float] | None:
        """Return the rates of these profiles, which have these numbers, together; None if the group does not pay."""
        if key not in self._known:
            times = self._pace.iterations_s if len(profiles) <= EXACT_MEMBERS else self._pace.estimated_iterations_s
            found = [p.iteration_s / max(time, 1e-12) for p, time in zip(profiles, times(profiles), strict=True)]
            self._known[key] = found if len(found) == 1 or sum(found) >= self._least_total else None
        return self._known[key]


@lru_cache(maxsize=64)
def _all_groups(kinds: int, woven: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[int]]]:
    """Return all groups of this many kinds of jobs, of which some are woven: the kinds of the members of each group,
    and their columns."""
    none = kinds * PACKING
    return [
        (
            group,
            [
                *[at * PACKING + group[:place].count(at) for place, at in enumerate(group)],
                *[none] * (PACKING - members),
            ],
        )
        for members in range(1, PACKING + 1)
        for group in combinations_with_replacement(woven if members > 1 else range(kinds), members)
    ]


def build_table(kinds: Sequence[Profile | None], rates: GroupRates) -> GroupTable:
    """Return the table of all groups that pay: those whose members do more together than in turn."""
    import numpy as np

    columns: list[list[int]] = []
    found: list[list[float]] = []
    starts: list[float] = []
    numbers = rates.numbers(kinds)
    woven = tuple([at for at, profile in enumerate(kinds) if profile is not None])
    for group, places in _all_groups(len(kinds), woven):
        profiles = [profile for at in group if (profile := kinds[at]) is not None]
        each = rates.of(tuple([numbers[at] for at in group]), profiles) if profiles else [1.0]
        if each is None:
            continue
        columns.append(places)
        found.append([*each, *[0.0] * (PACKING - len(group))])
        starts.append(sum([profile.start_s for profile in profiles]))
    return GroupTable(tuple(kinds), np.array(columns, dtype=np.intp), np.array(found), np.array(starts))


def rounded_profile(profile: Profile, base: float) -> Profile:
    """Return the profile that stands for all that are alike: their times are equal when rounded to powers of `base`."""
    return Profile(
        model="",
        iteration_s=_rounded(profile.iteration_s, base),
        data_s=_rounded(profile.data_s, base),
        gpu_s=_rounded(profile.gpu_s, base),
        network_s=_rounded(profile.network_s, base),
        start_s=_rounded(profile.start_s, base) if profile.start_s else 0.0,
    )


def _rounded(seconds: float, base: float) -> float:
    return exp(round(log(max(seconds, MIN_TIME_S)) / log(base)) * log(base))


class GroupTables:
    """The tables of a policy by the kinds that they have, the latest ones.

    A table depends only on the profiles of the jobs that are there now: a scheduler that restarts builds the same."""

    def __init__(self, pace: Pace | Rates) -> None:
        self._rates = GroupRates(pace)
        self._tables: OrderedDict[tuple[Profile | None, ...], GroupTable] = OrderedDict()

    def table(self, profiles: Sequence[Profile | None]) -> tuple[GroupTable, list[int]]:
        """Return the table for jobs of these profiles, and the kind of each."""
        standing = _standing_for(set(profiles))
        kinds = tuple(sorted(set(standing.values()), key=_by_value))
        found = self._tables.get(kinds)
        if found is None:
            found = self._tables[kinds] = build_table(kinds, self._rates)
            if len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(kinds)
        numbers = {profile: at for at, profile in enumerate(kinds)}
        return found, [numbers[standing[profile]] for profile in profiles]


def _standing_for(profiles: set[Profile | None]) -> dict[Profile | None, Profile | None]:
    """Return the profile that stands for each profile: itself, or one for all that are alike."""
    if len(profiles) <= MAX_PROFILES:
        return {profile: profile for profile in profiles}
    found: dict[Profile | None, Profile | None] = {}
    for base in COARSER:
        found = {p: None if p is None else rounded_profile(p, base) for p in profiles}
        if len(set(found.values())) <= MAX_PROFILES:
            break
    return found


def _by_value(profile: Profile | None) -> tuple[str, float, float, float, float, float]:
    if profile is None:
        return "", 0.0, 0.0, 0.0, 0.0, 0.0
    return profile.model, profile.iteration_s, profile.data_s, profile.gpu_s, profile.network_s, profile.start_s
