"""The estimate of how long jobs take: what a job declares or reports, else what similar jobs of its user took.

Jobs of a user are similar if their names have the same letters: `bert-lr3-v2` and `bert-lr5-v1` do. Jobs with the same
number of GPUs count first.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from weft.model import Job, Seconds
from weft.scheduling.core.state.job import JobState

MAX_KINDS: Final = 8192
"""The names whose kinds are kept: backfill asks for those of all waiting jobs at each pass."""


class DurationRecord(NamedTuple):
    """The durations of finished jobs of one kind."""

    mean_s: float
    longest_s: float
    jobs: int


NO_RECORD: Final = DurationRecord(0.0, 0.0, 0)


class Durations:
    """The durations of finished jobs, by user, name and GPUs. Nothing is computed until an estimate is needed."""

    def __init__(self) -> None:
        self._records: dict[Hashable, DurationRecord] = {}
        self._new: list[tuple[Job, float]] = []
        """Finished jobs that no record contains yet."""

    def learn(self, job: Job, seconds: float) -> None:
        """Record that a job is done after its runs have lasted for `seconds`."""
        self._new.append((job, seconds))

    def similar(self, job: Job) -> DurationRecord | None:
        """Return the durations of the user's finished jobs that are most similar; None: there is none."""
        return self._find(kinds_of(job)[:2])

    def nearest(self, job: Job) -> DurationRecord | None:
        """Return the same; without similar jobs, the durations of all jobs of the user, or of all users."""
        return self._find(kinds_of(job))

    def longest_left_s(self, job: JobState, now: Seconds) -> float:
        """Return the seconds that a waiting job may still take; infinite where unknown."""
        if job.remaining_s is not None:
            return job.remaining(now)
        found = self.similar(job.job)
        return inf if found is None else max(found.longest_s - job.attained_s, 0.0)

    def _find(self, kinds: tuple[Hashable, ...]) -> DurationRecord | None:
        records = self._records
        if self._new:
            for job, seconds in self._new:
                for kind in kinds_of(job):
                    mean_s, longest_s, jobs = records.get(kind, NO_RECORD)
                    mean_s += (seconds - mean_s) / (jobs + 1)
                    records[kind] = DurationRecord(mean_s, max(longest_s, seconds), jobs + 1)
            self._new.clear()
        for kind in kinds:
            if (found := records.get(kind)) is not None:
                return found
        return None


def kinds_of(job: Job) -> tuple[Hashable, ...]:
    """Return the groups of jobs that a job belongs to, the most similar first."""
    return _kinds(job.user, job.name or (job.profile.model if job.profile else ""), job.gpus)


@lru_cache(MAX_KINDS)
def _kinds(user: str, name: str, gpus: int) -> tuple[Hashable, ...]:
    stem = "".join(letter for letter in name.lower() if letter.isalpha())
    return (user, stem, gpus), (user, stem), (user,), ()
