"""Job arrays shown as one line each: the counts of their tasks, and one task that stands for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

COUNT_KEYS: Final = ("running", "waiting", "held", "done", "failed", "cancelled")
"""The keys of the counts, in the order in which they are shown."""


class ArrayTally:
    """Counts the unfinished tasks of arrays, and keeps one task of each."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._waiting: dict[str, JobState] = {}

    def collapse(self, jobs: Iterable[JobState]) -> list[JobState]:
        """Count these jobs. Return them with one task for each array: its first, unless an earlier call returned it."""
        kept = []
        for job in jobs:
            if not (batch := job.job.batch):
                kept.append(job)
                continue
            if batch not in self._counts:
                self._counts[batch] = {}
                kept.append(job)
            key = count_key(job)
            self._counts[batch][key] = self._counts[batch].get(key, 0) + 1
            if key == "waiting":
                self._waiting.setdefault(batch, job)
        return kept

    def counts(self, state: State, batch: str) -> dict[str, int]:
        """Return how many tasks of an array are in each state."""
        done, failed, cancelled = state.eligibility.ended_of(batch)
        found = {**self._counts.get(batch, {}), "done": done, "failed": failed, "cancelled": cancelled}
        return {key: found[key] for key in COUNT_KEYS if found.get(key)}

    def first_waiting(self, batch: str) -> JobState | None:
        return self._waiting.get(batch)


def count_key(job: JobState) -> str:
    if job.status in ACTIVE:
        return "running"
    if job.status in ENDED:
        return job.status
    return "held" if job.status == "held" else "waiting"


def count_tasks(tasks: Iterable[JobState]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for job in tasks:
        counts[count_key(job)] = counts.get(count_key(job), 0) + 1
    return {key: counts[key] for key in COUNT_KEYS if key in counts}


def main_task(tasks: list[JobState]) -> JobState:
    """Return the task that explains its array: the first that waits, else one that runs or is held, else the last."""
    by_key: dict[str, JobState] = {}
    for job in tasks:
        by_key.setdefault(count_key(job), job)
    return next((by_key[key] for key in ("waiting", "running", "held") if key in by_key), tasks[-1])
