"""The durations of finished jobs, one by one, by the same kinds as the scheduler's own estimate.

The latest jobs of a kind count. Once earlier ones are left out, only jobs count that started since: finished ones with
their duration, and runs that go on as longer than so far. Both together are a fair sample of the jobs that start now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from weft.core.state.durations import kinds_of
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model import Seconds

MAX_JOBS: Final = 20_000
"""The latest ended jobs from which durations are learned."""
MAX_FINISHED: Final = 256
"""The latest finished jobs of a kind that are kept."""
DRIFT_JOBS: Final = 30
"""The jobs of a block over which the drift of durations is measured."""
MAX_DRIFTS: Final = 100


class Finished(NamedTuple):
    """A finished job: when it first started, when it ended, and how long its runs lasted."""

    began: Seconds
    ended: Seconds
    seconds: float


class History:
    """The durations of the latest jobs that are done."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}
        self._block = _Block()
        self.drifts: deque[float] = deque(maxlen=MAX_DRIFTS)
        """The GPU time of consecutive jobs over the time that was expected of them, for the latest blocks of jobs."""

    def learn(self, job: JobState) -> None:
        """Record a job that is done."""
        ended, seconds = job.ended_at or 0.0, job.attained_s
        finished = Finished(ended - seconds if job.first_start is None else job.first_start, ended, seconds)
        names = kinds_of(job.job)
        known = next((self._kinds[name] for name in names if name in self._kinds), None)
        if known is not None and self._block.add(job.job.gpus or 1, seconds, known.mean_s):
            self.drifts.append(self._block.ratio)
            self._block = _Block()
        for name in names:
            kind = self._kinds.get(name)
            if kind is None:
                kind = self._kinds[name] = _Kind()
            kind.add(finished)

    def since(self, kind: Hashable) -> Seconds:
        """Return since when all jobs of a kind that started are known."""
        known = self._kinds.get(kind)
        return -inf if known is None else known.since

    def latest(self, kind: Hashable) -> Sequence[float]:
        """Return the latest durations of a kind, in the order in which the jobs finished."""
        known = self._kinds.get(kind)
        return () if known is None else known.latest()

    def of(self, kind: Hashable) -> Sequence[float]:
        """Return the latest durations of a kind, ascending."""
        known = self._kinds.get(kind)
        return () if known is None else known.ascending()

    def count_longer(self, kind: Hashable, seconds: float) -> int:
        """Return how many of the latest durations of a kind are longer."""
        known = self.of(kind)
        return len(known) - bisect_right(known, seconds)


class _Kind:
    """The latest finished jobs of one kind."""

    def __init__(self) -> None:
        self._finished: deque[Finished] = deque(maxlen=MAX_FINISHED)
        """In the order in which the jobs finished."""
        self._total_s = 0.0
        self._latest: list[float] | None = None
        self._ascending: list[float] | None = None

    def add(self, finished: Finished) -> None:
        if len(self._finished) == MAX_FINISHED:
            self._total_s -= self._finished[0].seconds
        self._finished.append(finished)
        self._total_s += finished.seconds
        self._latest = self._ascending = None

    @property
    def mean_s(self) -> float:
        return self._total_s / len(self._finished)

    @property
    def since(self) -> Seconds:
        return self._finished[0].ended if len(self._finished) == MAX_FINISHED else -inf

    def latest(self) -> Sequence[float]:
        if self._latest is None:
            since = self.since
            self._latest = [each.seconds for each in self._finished if each.began >= since]
        return self._latest

    def ascending(self) -> Sequence[float]:
        if self._ascending is None:
            self._ascending = sorted(self.latest())
        return self._ascending


class _Block:
    """Jobs that finished one after the other: how far off the means of their kinds were for all of them together."""

    def __init__(self) -> None:
        self._actual_s = self._expected_s = 0.0
        self._jobs = 0

    def add(self, gpus: int, actual_s: float, expected_s: float) -> bool:
        """Add a job; return whether the block is full."""
        self._actual_s += gpus * actual_s
        self._expected_s += gpus * expected_s
        self._jobs += 1
        return self._jobs >= DRIFT_JOBS and min(self._expected_s, self._actual_s) > 0

    @property
    def ratio(self) -> float:
        return self._actual_s / self._expected_s


def learn(state: State) -> History:
    """Return the durations of the latest jobs that are done."""
    history, latest = History(), list(islice(reversed(state.ended.values()), MAX_JOBS))
    for job in reversed(latest):
        if job.status == "done" and job.job.replica is None:
            history.learn(job)
    return history
