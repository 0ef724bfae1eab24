"""Keys of runs as lines: the value at time 0, and a slope that all lines of a list share."""

from __future__ import annotations

from bisect import bisect_left

from weft.scheduling.core.state.job import JobState

Line = tuple[float, int, JobState]
"""(intercept, tie-breaker, job); ascending, so the worst job is last."""


class Lines(list[Line]):
    """The lines of runs with the same slope, ascending."""

    def remove(self, line: Line) -> None:
        if self[-1] is line:
            self.pop()
        else:
            del self[bisect_left(self, line)]
