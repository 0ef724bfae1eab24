"""Arrays as one line each: the counts of their tasks, and the task that stands for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model.status import ACTIVE, ENDED

WORDS: Final = ("running", "waiting", "held", "done", "failed")
"""The words of the counts, in the order in which people read them. `failed` includes cancelled tasks."""


class ArrayTally:
    """Counts the unfinished tasks of arrays, and keeps one task of each."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._waiting: dict[str, JobState] = {}

    def collapse(self, jobs: Iterable[JobState]) -> list[JobState]:
        """Return these jobs with only the first task of each array, if none of it came before."""
        kept = []
        for job in jobs:
            if not (batch := job.job.batch):
                kept.append(job)
                continue
            if batch not in self._counts:
                self._counts[batch] = {}
                kept.append(job)
            word = word_of(job)
            self._counts[batch][word] = self._counts[batch].get(word, 0) + 1
            if word == "waiting":
                self._waiting.setdefault(batch, job)
        return kept

    def counts(self, state: State, batch: str) -> dict[str, int]:
        """Return how many tasks of an array are in each state."""
        done, ill = state.eligibility.ended_of(batch)
        found = {**self._counts.get(batch, {}), "done": done, "failed": ill}
        return {word: found[word] for word in WORDS if found.get(word)}

    def first_waiting(self, batch: str) -> JobState | None:
        return self._waiting.get(batch)


def word_of(job: JobState) -> str:
    if job.status in ACTIVE:
        return "running"
    if job.status in ENDED:
        return "done" if job.status == "done" else "failed"
    return "held" if job.status == "held" else "waiting"


def tasks_of(state: State, ref: str) -> list[JobState]:
    """Return the tasks of the array with this number; empty if the reference is something else."""
    if not ref.isdecimal() or ref in state.jobs:
        return []
    return [job for job in state.jobs.values() if job.job.batch == ref]


def count_tasks(tasks: Iterable[JobState]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for job in tasks:
        counts[word_of(job)] = counts.get(word_of(job), 0) + 1
    return {word: counts[word] for word in WORDS if word in counts}


def main_task(tasks: list[JobState]) -> JobState:
    """Return the task that an explanation of its array is about: the first that waits, or runs, or else the last."""
    by_word: dict[str, JobState] = {}
    for job in tasks:
        by_word.setdefault(word_of(job), job)
    return next((by_word[word] for word in ("waiting", "running", "held") if word in by_word), tasks[-1])
