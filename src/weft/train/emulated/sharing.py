"""Processor sharing: tasks on a resource share its capacity evenly. Pure: the time comes with each call."""

from __future__ import annotations

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Hashable

INFINITE = float("inf")
ROUNDING_S = 1e-9


class Resource:
    """A resource with room for `capacity` tasks at full speed. More tasks share it, and lose `loss` of their speed."""

    def __init__(self, capacity: float = 1.0, loss: float = 0.0) -> None:
        self.capacity, self.loss = capacity, loss
        self._left_s: dict[Hashable, float] = {}
        self._served_s: dict[Hashable, float] = {}
        self._at = 0.0

    @property
    def tasks(self) -> int:
        return len(self._left_s)

    @property
    def speed(self) -> float:
        """The seconds that each task is served per second."""
        tasks = len(self._left_s)
        if tasks <= self.capacity:
            return 1.0
        return self.capacity / tasks * (1.0 - self.loss)

    def add(self, task: Hashable, seconds: float, now: float) -> None:
        """Begin a task. A task of the same name ends."""
        self._advance(now)
        self._left_s[task], self._served_s[task] = seconds, 0.0

    def remove(self, task: Hashable, now: float) -> float:
        """End a task before its time; return how many seconds it was served."""
        self._advance(now)
        self._left_s.pop(task, None)
        return self._served_s.pop(task, 0.0)

    def finished(self, now: float) -> list[Hashable]:
        """Remove and return the tasks that have been served in full."""
        self._advance(now)
        done = [task for task, left_s in self._left_s.items() if left_s <= ROUNDING_S]
        for task in done:
            del self._left_s[task], self._served_s[task]
        return done

    def next_end(self) -> float:
        """Return when the next task ends if nothing changes; infinite if there is none."""
        if not self._left_s:
            return INFINITE
        return self._at + max(min(self._left_s.values()), 0.0) / self.speed

    def _advance(self, now: float) -> None:
        served_s = max(now - self._at, 0.0) * self.speed
        for task, left_s in self._left_s.items():
            self._left_s[task] = left_s - served_s
            self._served_s[task] += min(served_s, max(left_s, 0.0))
        self._at = max(now, self._at)
