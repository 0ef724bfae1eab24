"""The load of every GPU, and the GPUs without a guaranteed owner: AntMan's view of the cluster."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from weft.model import (
    Cancelled,
    Edited,
    Exited,
    Fact,
    Gpu,
    JobId,
    JobSnapshot,
    Node,
    NodeId,
    NodeJoined,
    NodeLost,
    Reserve,
    Slots,
    Start,
    Submitted,
)

# The original's figures, added in its order: the rounding of their sums decides between equally loaded GPUs.
RESERVED_LOAD: Final = 0.1 - 0.01
"""Load that a guaranteed job adds to a GPU when it reserves the GPU."""
STARTED_LOAD: Final = 0.01
"""Load that a guaranteed job adds when it starts."""
GUEST_LOAD: Final = 0.9
"""Load that an opportunistic job adds."""
FULL_LOAD: Final = 0.8
"""A GPU with this load accepts no opportunistic job."""

GpuKey = tuple[NodeId, int]
"""One GPU of one node."""


@dataclass
class GpuLoads:
    gpus: dict[GpuKey, Gpu] = field(default_factory=dict)
    kinds: set[Gpu] = field(default_factory=set)
    unowned: dict[NodeId, list[int]] = field(default_factory=dict)
    """GPUs without a guaranteed owner."""
    unowned_count: int = 0
    """Number of GPUs in `unowned`."""
    load: dict[GpuKey, float] = field(default_factory=dict)
    shareable: list[tuple[float, int, GpuKey]] = field(default_factory=list)
    """GPUs that accept an opportunistic job, the least loaded first, then in the order in which they joined."""
    ready: set[JobId] = field(default_factory=set)
    """Waiting guaranteed jobs that have reserved all the GPUs they need."""
    _number: dict[GpuKey, int] = field(default_factory=dict)
    _joined: int = 0
    _held: dict[JobId, set[GpuKey]] = field(default_factory=dict)
    """GPUs that each job has reserved or runs on."""
    _guests: dict[JobId, bool] = field(default_factory=dict)
    _needs: dict[JobId, int] = field(default_factory=dict)
    _started: set[JobId] = field(default_factory=set)

    def apply(self, fact: Fact) -> None:
        match fact:
            case NodeJoined(node=node):
                self._join(node)
            case NodeLost(node=lost):
                self._lose(lost)
            case Submitted(job=job) | Edited(job=job):
                self._guests[job.id], self._needs[job.id] = job.opportunistic, job.gpus
            case JobSnapshot(job=job):
                self._guests[job.id], self._needs[job.id] = job.opportunistic, job.gpus
                if fact.slots:
                    self._start(job.id, fact.slots)
                elif fact.reserved:
                    self._reserve(job.id, fact.reserved)
            case Reserve(job=job_id, slots=slots):
                self._reserve(job_id, slots)
            case Start(job=job_id, slots=slots):
                self._start(job_id, slots)
            case Cancelled(job=job_id) if job_id not in self._started:
                self._release(job_id, RESERVED_LOAD)
            case Exited(job=job_id):
                self._started.discard(job_id)
                self._release(job_id, GUEST_LOAD if self._guests[job_id] else RESERVED_LOAD + STARTED_LOAD)

    def _join(self, node: Node) -> None:
        known = sum(key[0] == node.id for key in self.load)  # a node that is alive gains GPUs
        added = range(known, len(node.gpus))
        self.unowned.setdefault(node.id, []).extend(added)
        self.unowned_count += len(added)
        self.kinds.update(node.gpus)
        for index in added:
            key, gpu = (node.id, index), node.gpus[index]
            self._joined += 1
            self.gpus[key], self.load[key], self._number[key] = gpu, 0.0, self._joined
            insort(self.shareable, (0.0, self._joined, key))

    def _lose(self, node: NodeId) -> None:
        self.unowned_count -= len(self.unowned.pop(node, ()))
        self.load = {key: load for key, load in self.load.items() if key[0] != node}
        self.shareable = [entry for entry in self.shareable if entry[2][0] != node]
        for job, held in self._held.items():
            if any(key[0] == node for key in held):
                self._held[job] = {key for key in held if key[0] != node}
                self.ready.discard(job)
                if not self._held[job]:
                    self._started.discard(job)

    def _add(self, key: GpuKey, load: float) -> None:
        before, number = self.load[key], self._number[key]
        after = self.load[key] = before + load
        if before < FULL_LOAD:
            del self.shareable[bisect_left(self.shareable, (before, number, key))]
        if after < FULL_LOAD:
            insort(self.shareable, (after, number, key))

    def _disown(self, key: GpuKey) -> None:
        insort(self.unowned[key[0]], key[1])
        self.unowned_count += 1

    def _start(self, job: JobId, slots: Slots) -> None:
        self._started.add(job)
        if self._guests[job]:
            self._held[job] = set(gpus_in(slots))
        else:
            self._reserve(job, slots)
        for key in gpus_in(slots):
            self._add(key, GUEST_LOAD if self._guests[job] else STARTED_LOAD)

    def _reserve(self, job: JobId, slots: Slots) -> None:
        held = self._held.setdefault(job, set())
        for key in sorted(held - set(gpus_in(slots))):
            held.discard(key)
            self._add(key, -RESERVED_LOAD)
            self._disown(key)
        for key in gpus_in(slots):
            if key not in held:
                held.add(key)
                self._add(key, RESERVED_LOAD)
                if key[1] in self.unowned[key[0]]:
                    self.unowned[key[0]].remove(key[1])
                    self.unowned_count -= 1
        self.ready.discard(job)
        if job not in self._started and len(held) >= self._needs[job]:
            self.ready.add(job)

    def _release(self, job: JobId, load: float) -> None:
        self.ready.discard(job)
        for key in sorted(self._held.pop(job, ())):
            self._add(key, -load)
            if not self._guests[job] and not self._has_owner(key):
                self._disown(key)

    def _has_owner(self, key: GpuKey) -> bool:
        return any(key in held for job, held in self._held.items() if not self._guests[job])


def gpus_in(slots: Slots) -> Iterator[GpuKey]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)


def slots_from(gpus: Iterable[GpuKey]) -> Slots:
    by_node: dict[NodeId, list[int]] = {}
    for node, gpu in gpus:
        by_node.setdefault(node, []).append(gpu)
    return tuple((node, tuple(sorted(numbers))) for node, numbers in by_node.items())
