"""The durations of finished jobs, one by one, by the same kinds as the scheduler's own estimate.

The latest 256 finished jobs of a kind are kept. Until there are as many, all jobs count: finished ones with their
duration, unfinished ones as longer than so far. After that, jobs count if they started after the first of the 256
ended. That is a fair sample of the jobs that start now. If long jobs leave too few of these, all finished ones count
and no unfinished ones: long jobs finish as often as they start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from weft.model import Seconds
from weft.scheduling.core.state.durations import kinds_of
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

MAX_LEARNED_JOBS: Final = 20_000
"""The latest ended jobs from which durations are learned."""
MAX_FINISHED: Final = 256
"""The latest finished jobs of a kind that are kept."""
MIN_STARTED: Final = MAX_FINISHED // 2
"""With fewer finished jobs that started after the first of those that are kept, all of them count."""
DRIFT_JOBS: Final = 30
"""The jobs of a block over which the drift of durations is measured."""
MIN_DRIFT_S: Final = 1.0
"""Blocks that were expected to take less GPU time say nothing about drift."""
MAX_DRIFTS: Final = 100


class Finished(NamedTuple):
    """A finished job: when it first started, when it ended, and how long its runs lasted."""

    began: Seconds
    ended: Seconds
    seconds: float


class History:
    """The durations of the latest jobs that are done."""

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}
        self._block = _Block()
        self.drifts: deque[float] = deque(maxlen=MAX_DRIFTS)
        """For the latest blocks of jobs, their GPU time over that of as many jobs with the mean of their kinds."""

    def learn(self, job: JobState) -> None:
        """Record a job that is done."""
        ended, seconds = job.ended_at or 0.0, job.attained_s
        finished = Finished(ended - seconds if job.first_start is None else job.first_start, ended, seconds)
        kinds = kinds_of(job.job)
        known = next((self._records[kind] for kind in kinds if kind in self._records), None)
        if known is not None and self._block.add(job.job.gpus or 1, seconds, known.mean_s):
            self.drifts.append(self._block.ratio)
            self._block = _Block()
        for kind in kinds:
            record = self._records.get(kind)
            if record is None:
                record = self._records[kind] = _Record()
            record.add(finished)

    def since(self, kind: Hashable) -> Seconds:
        """Return the time from which on unfinished jobs of a kind count, by their start."""
        known = self._records.get(kind)
        return -inf if known is None else known.since

    def latest(self, kind: Hashable) -> Sequence[float]:
        """Return the latest durations of a kind, in the order in which the jobs finished."""
        known = self._records.get(kind)
        return () if known is None else known.latest()

    def of(self, kind: Hashable) -> Sequence[float]:
        """Return the latest durations of a kind, ascending."""
        known = self._records.get(kind)
        return () if known is None else known.ascending()

    def count_longer(self, kind: Hashable, seconds: float) -> int:
        """Return how many of the latest durations of a kind are longer."""
        known = self.of(kind)
        return len(known) - bisect_right(known, seconds)


class _Record:
    """The latest finished jobs of one kind."""

    def __init__(self) -> None:
        self._finished: deque[Finished] = deque(maxlen=MAX_FINISHED)
        """In the order in which the jobs finished."""
        self._total_s = 0.0
        self._since: Seconds = -inf
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
        """The start from which on jobs count; infinite: only finished ones count."""
        self.latest()
        return self._since

    def latest(self) -> Sequence[float]:
        """Return the durations that count, in the order in which the jobs finished."""
        if self._latest is None:
            kept, self._since = list(self._finished), -inf
            if len(kept) == MAX_FINISHED:
                first_end, self._since = kept[0].ended, inf
                started = [each for each in kept if each.began >= first_end]
                if len(started) >= MIN_STARTED:
                    kept, self._since = started, first_end
            self._latest = [each.seconds for each in kept]
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
        return self._jobs >= DRIFT_JOBS and self._expected_s >= MIN_DRIFT_S and self._actual_s > 0

    @property
    def ratio(self) -> float:
        return self._actual_s / self._expected_s


def learn(state: State) -> History:
    """Return the durations of the latest jobs that are done."""
    history, latest = History(), list(islice(reversed(state.ended.values()), MAX_LEARNED_JOBS))
    for job in reversed(latest):
        if job.status == "done" and job.job.replica is None:
            history.learn(job)
    return history
