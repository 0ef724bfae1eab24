"""What the scheduler is told of how long jobs take. The truth stays in the simulator.

`exact`: the truth. `lognormal:SIGMA`: the truth times exp(N(0, SIGMA)), drawn for each job. `unknown`: nothing, until
jobs have finished; then the mean of those most like it. Whatever is told at submission, later news of a job is told in
the same terms: what is believed to be left is the estimate less what is done.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from weft.errors import InputError
from weft.model import Event, Exited, Job, JobId, Progressed, Seconds, Started

OVERDUE_S: Final = 1.0
"""What is believed to be left of a job that has done all that was expected of it."""
UNTOLD_RATE: Final = 1.0
"""Of a run that has said only that it works (Muri's rules)."""
MAX_SIGMA: Final = 10.0

Group = tuple[str | int | None, ...]


class Estimates:
    """The truth; the other kinds of estimate say otherwise."""

    def tell(self, job: Job) -> Job:
        """The job as the scheduler gets it at submission."""
        return job

    def left_s(self, job: JobId, done_s: float, left_s: float) -> float | None:  # noqa: ARG002
        """What the scheduler believes is left of a job with so much done and so much truly left; None: no idea."""
        return left_s

    def observe(self, events: Iterable[Event]) -> None:
        """What happened, as the scheduler sees it too."""


class Believed(Estimates):
    """Estimates that may be wrong: what is left is the estimate less what is done."""

    def __init__(self) -> None:
        self._told_s: dict[JobId, float | None] = {}

    def tell(self, job: Job) -> Job:
        told = self.estimate(job)
        self._told_s[job.id] = length_s(told)
        return told

    def estimate(self, job: Job) -> Job:
        return replace(job, declared_s=None, iterations=None)

    def left_s(self, job: JobId, done_s: float, left_s: float) -> float | None:  # noqa: ARG002
        told_s = self._told_s[job]
        return None if told_s is None else max(told_s - done_s, OVERDUE_S)


class Noisy(Believed):
    """The truth times a factor that is drawn for each job, whatever became of the others."""

    def __init__(self, seed: int, sigma: float) -> None:
        super().__init__()
        self._seed, self._sigma = seed, sigma

    def estimate(self, job: Job) -> Job:
        factor = math.exp(random.Random(f"{self._seed}:estimates:{job.id}").gauss(0.0, self._sigma))
        declared_s = None if job.declared_s is None else job.declared_s * factor
        iterations = None if job.iterations is None else max(1, round(job.iterations * factor))
        return replace(job, declared_s=declared_s, iterations=iterations)


@dataclass(slots=True)
class _Worked:
    """A job at work: solo seconds so far, and at which rate since when."""

    groups: tuple[Group, ...]
    work_s: float = 0.0
    rate: float = 0.0
    since: Seconds = 0.0

    def settle(self, now: Seconds) -> None:
        self.work_s += self.rate * (now - self.since)
        self.since = now


class Learned(Believed):
    """Nothing is declared: the mean solo time of finished jobs of the same user, label and GPUs, or of a wider group.

    A job's solo time is what was seen of it: each stretch at work times its rate, work that was done twice included.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[Group, tuple[int, float]] = {}
        self._jobs: dict[JobId, _Worked] = {}

    def estimate(self, job: Job) -> Job:
        groups = groups_of(job)
        self._jobs[job.id] = _Worked(groups)
        known = next((self._sums[group] for group in groups if group in self._sums), None)
        mean_s = None if known is None else max(known[1] / known[0], OVERDUE_S)
        return replace(job, declared_s=mean_s, iterations=None)

    def observe(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Started):
                job = self._jobs[event.job]
                job.rate, job.since = event.rate or UNTOLD_RATE, event.at
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

    def _learn(self, job: _Worked) -> None:
        for group in job.groups:
            count, sum_s = self._sums.get(group, (0, 0.0))
            self._sums[group] = count + 1, sum_s + job.work_s


def groups_of(job: Job) -> tuple[Group, ...]:
    """Whom a job is like, the closest first. Its label is its name, or else its model."""
    label = job.name or (job.profile.model if job.profile else "")
    user = job.user
    return (user, label, job.gpus), (user, label, None), (None, label, None), (user, None, None), ()


def length_s(job: Job) -> float | None:
    """How long it takes alone, by what was declared."""
    if job.iterations is not None and job.profile is not None:
        return job.iterations * job.profile.iteration_s
    return job.declared_s


def estimates_of(kind: str, seed: int) -> Estimates:
    """By the words of `--estimates`."""
    sigma = check(kind)
    if sigma is not None:
        return Noisy(seed, sigma)
    return Estimates() if kind == "exact" else Learned()


def check(kind: str) -> float | None:
    """InputError where there is no such kind of estimate; else its sigma, where it has one."""
    if kind in ("exact", "unknown"):
        return None
    name, _, text = kind.partition(":")
    try:
        sigma = float(text) if name == "lognormal" else -1.0
    except ValueError:
        sigma = -1.0
    if not 0 <= sigma <= MAX_SIGMA:
        hint = f"expected exact, unknown, or lognormal:SIGMA with SIGMA from 0 to {MAX_SIGMA:g}, such as lognormal:0.5"
        raise InputError(f"no such estimates: {kind[:80]!r}", hint=hint)
    return sigma
