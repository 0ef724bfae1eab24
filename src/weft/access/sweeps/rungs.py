"""The trials of a sweep at its rungs under ASHA (pure), sorted as they arrive: a sweep may have thousands."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from weft.access.sweeps.early_stop import Rule, Verdict, count_best, rank_of

Place = tuple[tuple[bool, float], int, str]
"""The rank of a value, the order of submission, and the trial."""


class Rungs:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._levels: list[list[Place]] = []
        """The places at each rung, the best first."""
        self._places: dict[str, list[Place]] = {}
        """The places of each trial, one for each rung that it has reached."""
        self._order: dict[str, int] = {}
        self._entered: set[str] = set()
        """Trials that have come among the best of a rung since the last decision, other than by arriving there."""
        self._stopped: set[str] = set()
        """Trials that were stopped by the last decisions. What follows from that may not have happened yet."""

    def put(self, trial: str, values: Sequence[float | None]) -> None:
        """Record the values of a trial at the rungs that it has reached. The first call decides who comes first of
        equal ones."""
        places = self._places.setdefault(trial, [])
        order = self._order.setdefault(trial, len(self._order))
        for value in values[len(places) :]:
            if len(places) == len(self._levels):
                self._levels.append([])
            place = rank_of(value, self.rule.goal), order, trial
            level = self._levels[len(places)]
            insort(level, place)
            places.append(place)
            if (best := count_best(self.rule, len(level))) > count_best(self.rule, len(level) - 1):
                self._entered.add(level[best - 1][2])
            self._stopped.discard(trial)

    def drop(self, trial: str) -> None:
        """Leave out a trial that failed: it takes no place among the best."""
        for level, place in zip(self._levels, self._places.pop(trial, ()), strict=False):
            del level[bisect_left(level, place)]
            if level:
                self._entered.add(level[count_best(self.rule, len(level)) - 1][2])
        self._entered.discard(trial)

    def check_all(self) -> None:
        """Let the next decision look at all trials: after a restart, the order of arrivals is not known."""
        self._entered.update(self._places)

    def decide(self, arrived: str, is_stopped: Callable[[str], bool], has_ended: Callable[[str], bool]) -> Verdict:
        """Return whether the trial that has arrived stops, and which stopped ones are among the best now."""
        stops = bool(self._places.get(arrived)) and not has_ended(arrived) and not self._is_best(arrived)
        release = [
            trial
            for trial in sorted(self._entered, key=self._order.__getitem__)
            if trial != arrived
            and self._is_best(trial)
            and (trial in self._stopped or is_stopped(trial))
            and not has_ended(trial)
        ]
        self._entered.clear()
        self._stopped.difference_update(release)
        if stops:
            self._stopped.add(arrived)
        return Verdict((arrived,) if stops else (), tuple(release))

    def _is_best(self, trial: str) -> bool:
        """Return whether a trial is among the best of the last rung that it has reached."""
        places = self._places.get(trial)
        if not places:
            return False
        level = self._levels[len(places) - 1]
        return bisect_left(level, places[-1]) < count_best(self.rule, len(level))
