"""Estimates of durations that the scheduler gets. The true durations stay in the simulator.

`exact`: the true duration. `lognormal:SIGMA`: the true duration times exp(N(0, SIGMA)), drawn for each job. `unknown`:
no estimate until similar jobs have finished, then their mean. Later reports of a job are consistent with its estimate:
the remaining time is the estimate minus the work done.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from weft.errors import InputError
from weft.history.metrics.work import declared_length_s
from weft.model import Event, Exited, Job, JobId, Progressed, Seconds, Started

OVERDUE_S: Final = 1.0
"""The remaining time of a job that has exceeded its estimate."""
DEFAULT_RATE: Final = 1.0
"""The rate of a run that has reported none, as under Muri's rules."""
MAX_SIGMA: Final = 10.0

Group = tuple[str | int | None, ...]


class Estimates:
    """Exact estimates, and the interface of the other kinds."""

    def declare(self, job: Job) -> Job:
        """Return the job as submitted to the scheduler, with the estimate as its declared duration."""
        return job

    def remaining_s(self, job: JobId, done_s: float, left_s: float) -> float | None:  # noqa: ARG002
        """Return the estimated remaining time of a job; None if unknown. `left_s` is the true one."""
        return left_s

    def observe(self, events: Iterable[Event]) -> None:
        """Learn from events that the scheduler also sees."""


class Inexact(Estimates):
    """Estimates that may be wrong: the remaining time is the estimate minus the work done."""

    def __init__(self) -> None:
        self._declared_s: dict[JobId, float | None] = {}

    def declare(self, job: Job) -> Job:
        declared = self.estimate(job)
        self._declared_s[job.id] = declared_length_s(declared)
        return declared

    def estimate(self, job: Job) -> Job:
        return replace(job, declared_s=None, iterations=None)

    def remaining_s(self, job: JobId, done_s: float, left_s: float) -> float | None:  # noqa: ARG002
        declared_s = self._declared_s[job]
        return None if declared_s is None else max(declared_s - done_s, OVERDUE_S)


class Noisy(Inexact):
    """The true duration times a random factor, drawn for each job independently of the others."""

    def __init__(self, seed: int, sigma: float) -> None:
        super().__init__()
        self._seed, self._sigma = seed, sigma

    def estimate(self, job: Job) -> Job:
        factor = math.exp(random.Random(f"{self._seed}:estimates:{job.id}").gauss(0.0, self._sigma))
        declared_s = None if job.declared_s is None else job.declared_s * factor
        iterations = None if job.iterations is None else max(1, round(job.iterations * factor))
        return replace(job, declared_s=declared_s, iterations=iterations)


@dataclass(slots=True)
class _ObservedWork:
    """The observed work of a job: solo seconds so far, and the present rate and its start."""

    groups: tuple[Group, ...]
    work_s: float = 0.0
    rate: float = 0.0
    since: Seconds = 0.0

    def settle(self, now: Seconds) -> None:
        self.work_s += self.rate * (now - self.since)
        self.since = now


class Learned(Inexact):
    """The mean solo time of finished jobs of the same user, label and GPUs, or of a wider group.

    A job's solo time is as observed: the sum of working time multiplied by rate, including repeated work.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[Group, tuple[int, float]] = {}
        self._jobs: dict[JobId, _ObservedWork] = {}

    def estimate(self, job: Job) -> Job:
        groups = similarity_groups(job)
        self._jobs[job.id] = _ObservedWork(groups)
        known = next((self._sums[group] for group in groups if group in self._sums), None)
        mean_s = None if known is None else max(known[1] / known[0], OVERDUE_S)
        return replace(job, declared_s=mean_s, iterations=None)

    def observe(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Started):
                job = self._jobs[event.job]
                job.rate, job.since = event.rate or DEFAULT_RATE, event.at
            elif isinstance(event, Progressed):
                job = self._jobs[event.job]
                job.settle(event.at)
                job.rate = event.rate
            elif isinstance(event, Exited):
                job = self._jobs[event.job]
                job.settle(event.at)
                job.rate = 0.0
                if event.how == "done":
                    self._learn(self._jobs.pop(event.job))

    def _learn(self, job: _ObservedWork) -> None:
        for group in job.groups:
            count, sum_s = self._sums.get(group, (0, 0.0))
            self._sums[group] = count + 1, sum_s + job.work_s


def similarity_groups(job: Job) -> tuple[Group, ...]:
    """Return the groups of similar jobs, the most similar first. A job's label is its name, or else its model."""
    label = job.name or (job.profile.model if job.profile else "")
    user = job.user
    return (user, label, job.gpus), (user, label, None), (None, label, None), (user, None, None), ()


def make_estimates(kind: str, seed: int) -> Estimates:
    """Return the estimates for a value of `--estimates`."""
    sigma = parse_sigma(kind)
    if sigma is not None:
        return Noisy(seed, sigma)
    return Estimates() if kind == "exact" else Learned()


def parse_sigma(kind: str) -> float | None:
    """Return the sigma of a kind of estimates, None if it has none; raise InputError for an unknown kind."""
    if kind in ("exact", "unknown"):
        return None
    name, _, text = kind.partition(":")
    try:
        sigma = float(text) if name == "lognormal" else -1.0
    except ValueError:
        sigma = -1.0
    if not 0 <= sigma <= MAX_SIGMA:
        hint = f"expected exact, unknown, or lognormal:SIGMA with SIGMA from 0 to {MAX_SIGMA:g}, such as lognormal:0.5"
        raise InputError(f"unknown kind of estimates: {kind[:80]!r}", hint=hint)
    return sigma
