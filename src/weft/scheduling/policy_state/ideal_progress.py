"""The progress of each job on an equal share of the cluster, and the fairest shares from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from weft.model import (
    Cancelled,
    Edited,
    Exited,
    Fact,
    Job,
    JobId,
    JobSnapshot,
    NodeId,
    NodeJoined,
    NodeLost,
    Progressed,
    Start,
    Started,
    Submitted,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

BISECTIONS: Final = 60


@dataclass
class IdealProgress:
    """Work is counted in iterations. The original mixes iterations with seconds, and its results depend on that."""

    iteration_s: dict[JobId, float] = field(default_factory=dict)
    done: dict[JobId, float] = field(default_factory=dict)
    """Iterations done, each divided by the share at its time."""
    _cluster: int = 0
    """GPUs of the living nodes."""
    _nodes: dict[NodeId, int] = field(default_factory=dict)
    _alive: set[JobId] = field(default_factory=set)
    """Jobs that wait or run."""
    _before: int = 0
    """The number of jobs at the previous instant."""
    _at: float = 0.0
    _left: dict[JobId, float] = field(default_factory=dict)
    """Remaining iterations according to the last report."""
    _gpus: dict[JobId, int] = field(default_factory=dict)
    _rates: dict[JobId, tuple[float, float]] = field(default_factory=dict)
    """Solo seconds per second of each run that works, and the instant since when."""

    def apply(self, fact: Fact) -> None:
        if fact.at > self._at:
            self._at, self._before = fact.at, len(self._alive)
        match fact:
            case NodeJoined(node=node):
                self._nodes[node.id] = len(node.gpus)
                self._cluster = sum(self._nodes.values())
            case NodeLost(node=lost):
                self._nodes.pop(lost, None)
                self._cluster = sum(self._nodes.values())
            case JobSnapshot(job=job):
                self._submit(job)
                if fact.ended_at is not None:
                    self._alive.discard(job.id)
            case Submitted(job=job) | Edited(job=job):
                self._submit(job)
            case Started(job=job_id):
                self._rates[job_id] = fact.rate, fact.at
            case Progressed() | Exited():
                self._progress(fact)
            case Start(job=job_id):
                self._alive.add(job_id)
        if isinstance(fact, Cancelled) or (isinstance(fact, Exited) and fact.how in ("done", "failed")):
            self._alive.discard(fact.job)

    def _progress(self, fact: Progressed | Exited) -> None:
        """Advance a job to what it reports. Without a report, it has worked at its rate since the last one."""
        rate, since = self._rates.pop(fact.job, (0.0, fact.at))
        left_s = fact.remaining_s
        if left_s is None:
            left_s = self._left[fact.job] * self.iteration_s[fact.job] - rate * (fact.at - since)
        self._advance(fact.job, max(left_s, 0.0) / self.iteration_s[fact.job])
        if isinstance(fact, Progressed):
            self._rates[fact.job] = fact.rate, fact.at

    def _submit(self, job: Job) -> None:
        self._alive.add(job.id)
        self.iteration_s[job.id] = iteration_s = job.profile.iteration_s if job.profile else 1.0
        self._gpus[job.id], self.done[job.id] = job.gpus, 0.0
        declared = (job.declared_s or 0.0) / iteration_s
        self._left[job.id] = declared if job.iterations is None else float(job.iterations)

    def _advance(self, job: JobId, left: float) -> None:
        alone = min(1.0, ceil(self._cluster / max(self._before, 1)) / max(self._gpus[job], 1))
        self.done[job] += max(self._left[job] - left, 0.0) / alone
        self._left[job] = left


def fairest_shares(age: Numbers, work: Numbers, ideal: Numbers, gpus: Numbers, total: int) -> Numbers:
    """Return the shares x that minimise the largest (age + work / x) / ideal, with sum(gpus * x) <= total."""
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
