"""Random faults: nodes that fail and are repaired, and runs that crash.

Each node and each run has a separate random stream, derived from the seed. So every policy meets the same faults, and
enabling one kind does not change another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from weft.model import JobId, Node, NodeJoined, NodeLost, Seconds


class Faults:
    """Node failures. Each node alternates between exponential up times (mean `mtbf_s`) and repairs (`repair_s`)."""

    def __init__(self, nodes: Sequence[Node] = (), seed: int = 0, mtbf_s: float = 0.0, repair_s: float = 0.0) -> None:
        self._nodes, self._mtbf_s, self._repair_s = nodes, mtbf_s, repair_s
        self._draws = [random.Random(f"{seed}:failures:{node.id}") for node in nodes]
        self._heap = [(draws.expovariate(1 / mtbf_s), at, True) for at, draws in enumerate(self._draws)]
        """Time of the next change, index of the node, and whether the node is up until then."""
        heapify(self._heap)

    def next_time(self) -> Seconds:
        return self._heap[0][0] if self._heap else float("inf")

    def happen(self, now: Seconds) -> list[NodeLost | NodeJoined]:
        """Return the nodes that fail or come back now."""
        events: list[NodeLost | NodeJoined] = []
        while self.next_time() <= now:
            at, which, up = heappop(self._heap)
            node = self._nodes[which]
            events.append(NodeLost(now, node.id) if up else NodeJoined(now, node))
            mean_s = self._repair_s if up else self._mtbf_s
            heappush(self._heap, (at + self._draws[which].expovariate(1 / mean_s), which, not up))
        return events


class Crashes:
    """Crashes of runs. A run crashes with probability `rate`, at a uniformly drawn point of its remaining work."""

    def __init__(self, seed: int = 0, rate: float = 0.0) -> None:
        self._seed, self._rate = seed, rate

    def remaining_at_crash(self, job: JobId, run: int, left: float) -> float:
        """Return the work left when the run crashes; 0 if it does not crash."""
        if not self._rate:
            return 0.0
        draws = random.Random(f"{self._seed}:crashes:{run}:{job}")
        return left * (1.0 - draws.random()) if draws.random() < self._rate else 0.0
