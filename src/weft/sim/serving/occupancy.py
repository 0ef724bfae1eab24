"""The use of GPUs over time: the figures of a cluster that services and training share."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.model import Exited, Fact, Job, JobId, Move, NodeId, NodeJoined, NodeLost, Seconds, Start, Submitted

Gpu = tuple[NodeId, int]


@dataclass
class Occupancy:
    """GPUs in use, and the part of them that no run requested."""

    peak_gpus: int = 0
    mean_gpus: float = 0.0
    mean_compute_fragmentation: float = 0.0
    """The part of the GPU-seconds in use that no run requested; a weave requests the whole GPU."""
    mean_memory_fragmentation: float | None = None
    """The same of memory; a run that declares no memory counts as using all. None: the GPUs' memory is not known."""
    moves: int = 0
    """Replicas that moved to other GPUs."""
    times_s: array[float] = field(default_factory=lambda: array("d"), repr=False)
    gpus: array[int] = field(default_factory=lambda: array("l"), repr=False)

    def values(self) -> dict[str, float | None]:
        """Return the figures as the fields of a JSON object."""
        return {
            "peak_gpus": self.peak_gpus, "mean_gpus": self.mean_gpus,
            "mean_compute_fragmentation": self.mean_compute_fragmentation,
            "mean_memory_fragmentation": self.mean_memory_fragmentation, "moves": self.moves,
        }  # fmt: skip


class _Sums:
    """GPU-seconds in use, and what was requested of them."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.memory_mb: dict[Gpu, int] = {}
        self.held: dict[Gpu, dict[JobId, tuple[float, int]]] = {}
        self.runs: dict[JobId, list[Gpu]] = {}
        self.request = self.memory = 0.0
        """Requested of the GPUs in use now: GPUs, and megabytes as parts of each GPU's memory."""
        self.known = 0
        """The GPUs in use whose memory is known."""
        self.gpu_s = self.request_s = self.memory_s = self.known_s = 0.0
        self.now: Seconds | None = None

    def advance(self, now: Seconds) -> None:
        if self.now is not None and now > self.now:
            passed = now - self.now
            self.gpu_s += passed * len(self.held)
            self.known_s += passed * self.known
            self.request_s += passed * self.request
            self.memory_s += passed * self.memory
        self.now = now

    def start(self, fact: Start) -> None:
        job = self.jobs[fact.job]
        gpus = self.runs[fact.job] = [(node, gpu) for node, each in fact.slots for gpu in each]
        for rank, gpu in enumerate(gpus):
            declared = job.memory_mb.of(min(rank, job.gpus - 1))
            self._change(gpu, fact.job, (fact.share.request, declared or self.memory_mb.get(gpu, 0)))

    def end(self, job: JobId) -> None:
        for gpu in self.runs.pop(job, ()):
            self._change(gpu, job, None)

    def lose(self, node: NodeId) -> None:
        for job, gpus in self.runs.items():
            for gpu in [each for each in gpus if each[0] == node]:
                gpus.remove(gpu)
                self._change(gpu, job, None)

    def _change(self, gpu: Gpu, job: JobId, holds: tuple[float, int] | None) -> None:
        holders = self.held.setdefault(gpu, {})
        self._count(gpu, holders, -1)
        if holds is None:
            holders.pop(job, None)
        else:
            holders[job] = holds
        self._count(gpu, holders, +1)
        if not holders:
            del self.held[gpu]

    def _count(self, gpu: Gpu, holders: dict[JobId, tuple[float, int]], sign: int) -> None:
        if not holders:
            return
        self.request += sign * min(sum(request for request, _ in holders.values()), 1.0)
        if total := self.memory_mb.get(gpu):
            self.known += sign
            self.memory += sign * min(sum(memory for _, memory in holders.values()) / total, 1.0)


def measure_occupancy(facts: Iterable[Fact]) -> Occupancy:
    """Return how the GPUs were used from the first start to the last end."""
    sums, found = _Sums(), Occupancy()
    first = last = 0.0
    for fact in facts:
        if isinstance(fact, Submitted):
            sums.jobs[fact.job.id] = fact.job
            continue
        if isinstance(fact, NodeJoined):
            sums.memory_mb |= {(fact.node.id, at): gpu.memory_mb for at, gpu in enumerate(fact.node.gpus)}
            continue
        found.moves += isinstance(fact, Move)
        if not isinstance(fact, Start | Exited | NodeLost):
            continue
        sums.advance(fact.at)
        if isinstance(fact, Start):
            first = fact.at if not found.times_s else first
            sums.start(fact)
        elif isinstance(fact, Exited):
            sums.end(fact.job)
        else:
            sums.lose(fact.node)
        last = fact.at
        _record(found, fact.at, len(sums.held))
    found.mean_gpus = sums.gpu_s / (last - first) if last > first else 0.0
    found.mean_compute_fragmentation = 1 - sums.request_s / sums.gpu_s if sums.gpu_s else 0.0
    found.mean_memory_fragmentation = 1 - sums.memory_s / sums.known_s if sums.known_s else None
    return found


def _record(found: Occupancy, now: Seconds, gpus: int) -> None:
    """Record the number of GPUs in use; of several values at one instant, the last."""
    found.peak_gpus = max(found.peak_gpus, gpus)
    if found.times_s and found.times_s[-1] == now:
        found.gpus[-1] = gpus
    else:
        found.times_s.append(now)
        found.gpus.append(gpus)
