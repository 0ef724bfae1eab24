"""The GPU seconds of each team for Prometheus, counted from the start of the server on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from weft.model import Exited, Fact, NodeLost, Rewoven, Seconds, Start, Stop, TeamRemoved, TeamSet
from weft.scheduling.core.state.state import State
from weft.scheduling.core.teams.standing import standing_of
from weft.server.admin.teams import borrowed_gpus

CHANGES: Final = (Start, Stop, Exited, NodeLost, Rewoven, TeamSet, TeamRemoved)
"""The facts that change what teams hold."""
Key = tuple[str, str]
"""A team, and `held` or `borrowed`."""


class TeamGpuSeconds:
    """Adds up what the teams hold, and borrow of it, over time. A department has the sums of its teams."""

    def __init__(self, state: State) -> None:
        self._seconds: dict[Key, float] = {}
        self._gpus: dict[Key, float] = {}
        """The GPUs that count from `_since` on."""
        self._since: Seconds = state.now
        self._read(state)

    def record(self, state: State, facts: Iterable[Fact]) -> None:
        """Count up to the facts of a batch, which the state has applied, and go on with what the teams hold then."""
        if (self._gpus or state.teams.by_name) and any(isinstance(fact, CHANGES) for fact in facts):
            self._advance(state.now)
            self._read(state)

    def totals(self, now: Seconds) -> Iterator[tuple[Key, float]]:
        """Yield the GPU seconds up to now of all teams that had any, or exist."""
        self._advance(now)
        yield from sorted(self._seconds.items())

    def _advance(self, now: Seconds) -> None:
        passed_s = max(now - self._since, 0.0)
        self._since = max(now, self._since)
        for key, gpus in self._gpus.items():
            self._seconds[key] = self._seconds.get(key, 0.0) + gpus * passed_s

    def _read(self, state: State) -> None:
        teams = state.teams
        if not teams.by_name:
            self._gpus = {}
            return
        standing = standing_of(state)
        borrowed = borrowed_gpus(teams, standing)
        self._gpus = {(name, "held"): max(standing.held.get(name, 0.0), 0.0) for name in teams.by_name}
        self._gpus |= {(name, "borrowed"): max(borrowed.get(name, 0.0), 0.0) for name in teams.by_name}
        for key in self._gpus:
            self._seconds.setdefault(key, 0.0)
