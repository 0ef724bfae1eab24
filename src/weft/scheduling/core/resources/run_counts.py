"""The number of runs that stay on each node, for placements that see runs.

Runs are counted at the first use; later uses count only the nodes that changed since.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.scheduling.core.resources.change_log import ChangeLog
from weft.scheduling.core.resources.free import members
from weft.scheduling.core.resources.node import NodeResources


class RunCounts:
    """Run counts by node; with `after_release`, stopping runs count as gone."""

    def __init__(self, nodes: Sequence[NodeResources], change_log: ChangeLog, *, after_release: bool) -> None:
        self._nodes, self._change_log, self._after_release = nodes, change_log, after_release
        self._runs: list[int] = []
        self._tiers: list[int] = [0]
        self._seen = 0

    def tiers(self) -> list[int]:
        """Return, for each k from 0, the set of nodes on which exactly k runs stay."""
        changed = self._change_log.since(self._seen)
        if changed is None or len(self._runs) < len(self._nodes):
            changed = (1 << len(self._nodes)) - 1
            self._runs, self._tiers = [0] * len(self._nodes), [changed]
        for node in members(changed):
            self._move(node, sum(not (self._after_release and run.releasing) for run in self._nodes[node].runs()))
        self._seen = self._change_log.version
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
