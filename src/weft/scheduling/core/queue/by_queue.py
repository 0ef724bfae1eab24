"""Waiting jobs by queue, for policies with queues. Each queue stays sorted as facts come in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator

from weft.model import JobId
from weft.scheduling.core.ports import Policy
from weft.scheduling.core.state.job import JobState

Place = tuple[float, int, JobState]
"""(-key, -tie-breaker, job): ascending, so that the best is last and cheap to remove."""


class Queues:
    def __init__(self, policy: Policy) -> None:
        self._queue: Callable[[JobState], Hashable] = policy.queue
        self._lists: dict[Hashable, list[Place]] = {}
        self._at: dict[JobId, tuple[Hashable, Place]] = {}

    def take_up(self, job: JobState, key: Callable[[JobState], float]) -> None:
        """Update the place of a job that has changed."""
        known = self._at.pop(job.id, None)
        if known is not None:
            queue, place = known
            places = self._lists[queue]
            del places[bisect_left(places, place)]
            if not places:
                del self._lists[queue]
        if job.status == "waiting":
            queue, place = self._queue(job), (-key(job), -job.tie_breaker, job)
            insort(self._lists.setdefault(queue, []), place)
            self._at[job.id] = queue, place

    def first(self, queue: Hashable) -> JobState | None:
        places = self._lists.get(queue)
        return places[-1][2] if places else None

    def queued(self, queue: Hashable) -> list[JobState]:
        """Return all jobs in a queue, best first."""
        return [job for _, _, job in reversed(self._lists.get(queue, ()))]

    def firsts(self) -> Iterator[tuple[Hashable, JobState]]:
        """Yield the queues with waiting jobs, each with its first job."""
        return ((queue, places[-1][2]) for queue, places in self._lists.items())
