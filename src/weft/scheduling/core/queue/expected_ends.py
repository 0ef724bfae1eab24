"""Runs by expected end, soonest first. The list stays sorted as facts come in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge

from weft.model import JobId, Seconds
from weft.scheduling.core.state.job import JobState

End = tuple[Seconds, int, JobState]


def end_of(job: JobState, now: Seconds) -> End:
    """Return when a run is expected to end; the instant may be past."""
    at = job.rate_since if job.rate else now
    return at + job.ends_in(at), job.tie_breaker, job


class ExpectedEnds:
    def __init__(self) -> None:
        self._ends: list[End] = []
        """The ends of runs that make progress, ascending."""
        self._at: dict[JobId, End] = {}
        self._loading: dict[JobId, JobState] = {}
        """Runs that make no progress yet: their ends move with the clock."""

    def take_up(self, job: JobState) -> None:
        """Update the end of a job that has changed."""
        known = self._at.pop(job.id, None)
        if known is not None:
            del self._ends[bisect_left(self._ends, known)]
        self._loading.pop(job.id, None)
        if job.status not in ("starting", "running"):
            return
        if job.rate:
            self._at[job.id] = entry = end_of(job, job.rate_since)
            insort(self._ends, entry)
        else:
            self._loading[job.id] = job

    @property
    def has_loading(self) -> bool:
        return bool(self._loading)

    def soonest(self, now: Seconds) -> Iterator[JobState]:
        loading = sorted(end_of(job, now) for job in self._loading.values())
        return (job for _, _, job in (merge(self._ends, loading) if loading else self._ends))
