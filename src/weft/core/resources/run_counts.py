"""How many runs stay on each node, for placements that look at who is where.

Nothing is counted before somebody asks; then only the nodes on which something changed since are counted again.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.resources.change_log import Changes
from weft.core.resources.free import members
from weft.core.resources.node import Room


class Crowd:
    """With `soon`, those on their way out count as gone."""

    def __init__(self, rooms: Sequence[Room], changes: Changes, *, soon: bool) -> None:
        self._rooms, self._changes, self._soon = rooms, changes, soon
        self._runs: list[int] = []
        self._tiers: list[int] = [0]
        self._seen = 0

    def tiers(self) -> list[int]:
        """For each k from 0, the set of nodes on which exactly k runs stay."""
        changed = self._changes.since(self._seen)
        if changed is None or len(self._runs) < len(self._rooms):
            changed = (1 << len(self._rooms)) - 1
            self._runs, self._tiers = [0] * len(self._rooms), [changed]
        for node in members(changed):
            self._move(node, sum(not (self._soon and run.leaving) for run in self._rooms[node].runs()))
        self._seen = self._changes.version
        return self._tiers

    def _move(self, node: int, runs: int) -> None:
        before = self._runs[node]
        if runs == before:
            return
        while len(self._tiers) <= runs:
            self._tiers.append(0)
        self._runs[node] = runs
        self._tiers[before] ^= 1 << node
        self._tiers[runs] |= 1 << node
