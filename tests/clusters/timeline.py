"""The queue of future events, in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

MOST_STEPS = 200_000
"""A world that has not ended by then goes round in circles."""


class Stuck(AssertionError):
    pass


class Timeline:
    """True time, which no process of the world can read: each machine has a separate clock."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.trace: Callable[[str], None] | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._steps = 0

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        self._steps += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._steps, do))

    def run(self, until: float) -> None:
        """Everything up to then."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            if self._steps > MOST_STEPS:
                raise Stuck(f"{MOST_STEPS} things have happened by {self.now:.1f} s, and it does not end")
            self.now, _, do = heapq.heappop(heap)
            do()
        self.now = until

    def note(self, words: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.now:8.3f}  {words}")
