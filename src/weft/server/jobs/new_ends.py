"""The jobs that have ended since the last look, whatever ended them."""

from __future__ import annotations

from collections.abc import Iterator

from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


class NewEnds:
    """Jobs that ended are the last of `state.ended`, so that a look costs as much as there are new ones."""

    def __init__(self, state: State) -> None:
        self._at, self._then = state.now, frozenset(state.ended)
        """The last time at which jobs ended, and the jobs that ended by then: they are known."""

    def take(self, state: State) -> list[JobState]:
        """Return the jobs that have ended since the last call, the latest first."""
        new = list(self._new(state))
        if new:
            last = new[0].ended_at or 0.0
            then = frozenset(job.id for job in new if job.ended_at == last)
            self._then = then | self._then if last == self._at else then
            self._at = last
        return new

    def _new(self, state: State) -> Iterator[JobState]:
        for job in reversed(state.ended.values()):
            if (job.ended_at or 0.0) < self._at:
                return
            if job.ended_at == self._at and job.id in self._then:
                continue
            yield job
