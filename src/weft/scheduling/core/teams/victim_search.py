"""A bounded search for the runs that stop for a guaranteed job, where borrowed runs alone do not make room.

A run that a guarantee covers may stop if other runs of its team take its place: the guarantee covers as many GPUs as
before, and has no room for a run that stops. Of the sets of runs that make room, the one with the fewest GPUs stops;
of these, the one that loses least work.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Final

from weft.scheduling.core.planning.allocator import Allocator, PreemptionPlan
from weft.scheduling.core.planning.tentative import Parts
from weft.scheduling.core.resources.node import Holder
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.teams import Teams
from weft.scheduling.core.teams.standing import ROUNDING, Standing, Unit, gpus_of

MAX_STEPS: Final = 4000
"""The most candidates that one search tries, one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Runs that may stop together: one, or the members of a weave."""

    runs: Sequence[JobState]
    gpus: Mapping[int, int]
    """The GPUs that they hold on each node, by the index of the node."""
    uses: Mapping[Hashable, float]
    """Their part of each budget: GPUs of a team, or a replica of a service."""
    covered: bool
    lost_s: float
    """The seconds of work on their GPUs that would be lost."""


class Lenders:
    """The teams, with the GPUs that their guarantees do not cover."""

    def __init__(self, teams: Teams, units: Sequence[Unit]) -> None:
        self._teams, self._units = teams, units
        self._now = Standing(teams, units)

    def budgets(self) -> dict[Hashable, float]:
        """Return the GPUs of each team that no guarantee covers; no more may go."""
        return {name: gpus - self._now.covered.get(name, 0.0) for name, gpus in self._now.held.items()}

    def spare(self, gone: Collection[Candidate]) -> bool:
        """Return whether guarantees cover as many GPUs as before once these runs are gone, and have no room for them:
        such a run would come back at once."""
        if not any(candidate.covered for candidate in gone):
            return True
        runs = {run.id for candidate in gone for run in candidate.runs}
        now, after = self._now, Standing(self._teams, [unit for unit in self._units if unit[0][0].id not in runs])
        for candidate in gone:
            least = min(map(gpus_of, candidate.runs))
            for name in [name for name in candidate.uses if isinstance(name, str)]:
                if after.covered.get(name, 0.0) < now.covered.get(name, 0.0) - ROUNDING:
                    return False
                if after.fits_guarantee(name, least):
                    return False
        return True


class VictimSearch:
    """A search for the runs that stop for one job."""

    def __init__(
        self,
        allocator: Allocator,
        shape: Shape,
        lenders: Lenders,
        candidates: Sequence[Candidate],
        budgets: dict[Hashable, float],
    ) -> None:
        self._allocator, self._shape, self._lenders, self._budgets = allocator, shape, lenders, budgets
        self._candidates = sorted(candidates, key=lambda each: _harm([each]))
        self._gone: dict[Candidate, None] = {}
        self._holders: dict[Holder, None] = {}
        self._free = allocator.after_release(shape).copy()
        self._free.gone = self._holders
        self._best: tuple[Candidate, ...] = ()
        self._least_harm: tuple[float, float] = (inf, inf)
        self._steps_left = MAX_STEPS
        self._room = 0
        """The most GPUs that are free where the search looks."""

    def plan(self) -> PreemptionPlan | None:
        """Return the runs that are to stop; None: the search found no set."""
        for group, node in self._groups():
            self._walk(group, node)
        if not self._best:
            return None
        for candidate in self._best:
            self._remove(candidate)
        runs = tuple([run for candidate in self._best for run in candidate.runs])
        return PreemptionPlan(self._place(), self._holders, self._free, runs)

    def _groups(self) -> Iterator[tuple[list[Candidate], int | None]]:
        """Yield the candidates on each node, with the node; all of them together for a gang over several nodes."""
        count, need = self._free.count, self._shape.gpus
        on: dict[int, list[Candidate]] = {}
        for candidate in self._candidates:
            for node in candidate.gpus:
                on.setdefault(node, []).append(candidate)
        if not self._allocator.splits_gangs and need <= self._free.largest():
            yield from ((on[node], node) for node in sorted(on, key=lambda node: (-count[node], node)))
            return
        room = {node: count[node] + sum(each.gpus[node] for each in on[node]) for node in on}
        nodes = sorted(on, key=lambda node: (-room[node], -count[node], node))
        yield list(dict.fromkeys([candidate for node in nodes for candidate in on[node]])), None

    def _walk(self, group: list[Candidate], node: int | None) -> None:
        """Look at the sets of candidates of a group, those with its first ones first."""
        left = [sum(each.gpus.values()) if node is None else each.gpus[node] for each in group]
        rest = [*accumulate(reversed(left), initial=0)][::-1]
        if not self._shape.plain:  # a run that goes may free more than the GPUs that it holds: those without CPUs
            rest = [int(each > 0) * self._shape.gpus for each in rest]
        path: list[int] = []
        index, self._room = 0, self._free.total() if node is None else self._free.count[node]
        while self._steps_left:
            self._steps_left -= 1
            if self._room + rest[index] < self._shape.gpus or not rest[index]:
                if not path:
                    return
                index = path.pop()
                self._restore(group[index])
            elif self._may_remove(group[index]):
                self._remove(group[index])
                if self._note_if_enough():
                    self._restore(group[index])
                else:
                    path.append(index)
            index += 1
        for index in path:
            self._restore(group[index])

    def _may_remove(self, candidate: Candidate) -> bool:
        if any(self._budgets[name] < gpus - ROUNDING for name, gpus in candidate.uses.items()):
            return False
        return _harm((*self._gone, candidate)) < self._least_harm

    def _note_if_enough(self) -> bool:
        """Note the runs that are gone as the best set so far if they are enough, without those that need not go."""
        if not self._is_enough():
            return False
        spared = []
        for candidate in list(self._gone):
            self._restore(candidate)
            if self._is_enough():
                spared.append(candidate)
            else:
                self._remove(candidate)
        self._best, self._least_harm = tuple(self._gone), _harm(self._gone)
        for candidate in spared:
            self._remove(candidate)
        return True

    def _is_enough(self) -> bool:
        return self._place() is not None and self._lenders.spare(self._gone)

    def _place(self) -> Parts | None:
        return self._allocator.placement.place(self._shape, self._free)

    def _remove(self, candidate: Candidate) -> None:
        self._gone[candidate] = None
        self._holders.update(dict.fromkeys(candidate.runs))
        self._charge(candidate, -1)

    def _restore(self, candidate: Candidate) -> None:
        del self._gone[candidate]
        for run in candidate.runs:
            del self._holders[run]
        self._charge(candidate, 1)

    def _charge(self, candidate: Candidate, sign: int) -> None:
        for name, amount in candidate.uses.items():
            self._budgets[name] += sign * amount
        for node in candidate.gpus:
            host = self._allocator.resources.nodes[node]
            self._room -= self._free.count[node]
            self._allocator.recount(self._free, host, self._shape, self._holders)
            self._room += self._free.count[node]


def _harm(candidates: Collection[Candidate]) -> tuple[int, float]:
    """Return the GPUs whose runs stop, and the seconds of work lost on them."""
    return (
        sum(sum(candidate.gpus.values()) for candidate in candidates),
        sum(candidate.lost_s for candidate in candidates),
    )
