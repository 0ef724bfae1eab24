"""Themis (NSDI'20), finish-time fairness as in Gavel's policy code, which is what Muri's simulator runs.

Each job j has rho_j: how long it takes here against how long it would take on its equal share of the cluster. Shares
x_j in [0, 1] with sum(gpus_j * x_j) <= GPUs are chosen so that the largest rho is smallest; whoever has been given
least of its share goes first. For a given rho every x_j is explicit, so bisection finds the shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from weft.core.ports import Ask, JobView, Replanner, View
from weft.model import (
    Cancelled,
    Exited,
    Fact,
    Job,
    JobId,
    NodeId,
    NodeJoined,
    NodeLost,
    Progressed,
    Seconds,
    Start,
    Submitted,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BISECTIONS = 60
NEVER_RUN = 1e9


@dataclass
class Ideal:
    """How far each job would have come on its equal share, gathered from the facts."""

    cluster: int = 0
    """GPUs of the living nodes."""
    nodes: dict[NodeId, int] = field(default_factory=dict)
    alive: set[JobId] = field(default_factory=set)
    """Jobs that wait or run."""
    before: int = 0
    """How many jobs there were at the instant before this."""
    at: float = 0.0
    left: dict[JobId, float] = field(default_factory=dict)
    """Iterations still to do when last heard of."""
    iteration_s: dict[JobId, float] = field(default_factory=dict)
    gpus: dict[JobId, int] = field(default_factory=dict)
    done: dict[JobId, float] = field(default_factory=dict)
    """Iterations done, each divided by the share of the time."""


@dataclass(frozen=True)
class Themis(Replanner):
    """Finish-time fairness: the worst-off job as well off as can be."""

    preempts = True
    interval_s = 360.0

    def key(self, job: JobView, now: Seconds) -> float:
        """Between two plans idle GPUs go to whoever came first."""
        return job.submitted_at

    def rank(self, view: View) -> Iterable[Ask]:
        jobs: list[JobView] = sorted([*view.waiting, *view.active], key=lambda job: job.seq)
        if not jobs or not view.gpus:
            return []
        share = self._shares(jobs, view)
        first = sorted(range(len(jobs)), key=lambda i: -_claim(jobs[i], share[i], view.now))
        trial = view.trial()
        chosen = [jobs[i] for i in first if trial.fits(jobs[i].shape)]
        chosen.sort(key=lambda job: -job.gpus)
        return [Ask((job.id,), job.gpus, job.job.share, job.job.where) for job in chosen]

    def _shares(self, jobs: list[JobView], view: View) -> list[float]:
        import numpy as np

        memo: Ideal = view.memo
        gpus = np.array([job.gpus for job in jobs], dtype=float)
        work = np.array([job.remaining(view.now) for job in jobs])
        work[~np.isfinite(work)] = 3600.0
        left = work / np.array([memo.iteration_s[job.id] for job in jobs])
        alone = np.minimum(1.0, ceil(view.gpus / len(jobs)) / np.maximum(gpus, 1))
        ideal = np.array([memo.done[job.id] for job in jobs]) + left / alone
        age = view.now - np.array([job.submitted_at for job in jobs])
        return list(fairest(age, np.maximum(work, 1e-9), np.maximum(ideal, 1e-9), gpus, view.gpus))

    def memo(self) -> Ideal:
        return Ideal()

    def observe(self, memo: Ideal, fact: Fact) -> Ideal:
        if fact.at > memo.at:
            memo.at, memo.before = fact.at, len(memo.alive)
        match fact:
            case NodeJoined(node=node):
                memo.nodes[node.id] = len(node.gpus)
                memo.cluster = sum(memo.nodes.values())
            case NodeLost(node=lost):
                memo.nodes.pop(lost, None)
                memo.cluster = sum(memo.nodes.values())
            case Submitted(job=job):
                memo.alive.add(job.id)
                memo.iteration_s[job.id] = job.profile.iteration_s if job.profile else 1.0
                memo.gpus[job.id], memo.done[job.id] = job.gpus, 0.0
                memo.left[job.id] = _iterations(job)
            case Progressed(job=job_id, remaining_s=float(left_s)) | Exited(job=job_id, remaining_s=float(left_s)):
                self._note(memo, job_id, left_s / memo.iteration_s[job_id])
            case Start(job=job_id):
                memo.alive.add(job_id)
        if isinstance(fact, Cancelled) or (isinstance(fact, Exited) and fact.how in ("done", "failed")):
            memo.alive.discard(fact.job)
        return memo

    def _note(self, memo: Ideal, job: JobId, left: float) -> None:
        before = memo.left[job]
        alone = min(1.0, ceil(memo.cluster / max(memo.before, 1)) / max(memo.gpus[job], 1))
        memo.done[job] += max(before - left, 0.0) / alone
        memo.left[job] = left


def _iterations(job: Job) -> float:
    if job.iterations is not None:
        return float(job.iterations)
    return (job.declared_s or 0.0) / (job.profile.iteration_s if job.profile else 1.0)


def _claim(job: JobView, share: float, now: float) -> float:
    """How much of its share a job has not been given yet."""
    attained = job.attained(now)
    return share / attained if attained > 0 else NEVER_RUN * share


def fairest(
    age: NDArray[np.float64],
    work: NDArray[np.float64],
    ideal: NDArray[np.float64],
    gpus: NDArray[np.float64],
    total: int,
) -> NDArray[np.float64]:
    """The shares x that minimise the largest (age + work / x) / ideal, with sum(gpus * x) <= total."""
    import numpy as np

    low = float(np.max((age + work) / ideal))
    high = low
    while float(np.sum(gpus * work / (high * ideal - age))) > total:
        low, high = high, high * 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if float(np.sum(gpus * work / (middle * ideal - age))) > total:
            low = middle
        else:
            high = middle
    return work / (high * ideal - age)
