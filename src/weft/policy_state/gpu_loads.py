"""How loaded every GPU is, and which guaranteed job it belongs to: AntMan's view of the cluster."""

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

RESERVED: Final = 0.1 - 0.01
STARTED: Final = 0.01
GUEST_LOAD: Final = 0.9
FULL: Final = 0.8
"""What a guaranteed job adds to a GPU's load when it reserves it and when it starts there, what an opportunistic one
adds, and the load from which a GPU takes no opportunistic job: the original's figures, added in the original's order,
because the rounding of their sums decides between GPUs that are equally loaded."""

Seat = tuple[NodeId, int]
"""One GPU of one node."""


@dataclass
class GpuLoads:
    gpus: dict[Seat, Gpu] = field(default_factory=dict)
    kinds: set[Gpu] = field(default_factory=set)
    open: dict[NodeId, list[int]] = field(default_factory=dict)
    """GPUs without a guaranteed owner."""
    open_gpus: int = 0
    """How many they are."""
    load: dict[Seat, float] = field(default_factory=dict)
    room: list[tuple[float, int, Seat]] = field(default_factory=list)
    """GPUs that take an opportunistic job, the least loaded first, then as they joined."""
    ready: set[JobId] = field(default_factory=set)
    """Guaranteed jobs that wait and have reserved all they need."""
    _number: dict[Seat, int] = field(default_factory=dict)
    _joined: int = 0
    _held: dict[JobId, set[Seat]] = field(default_factory=dict)
    """What each job has reserved or runs on."""
    _guests: dict[JobId, bool] = field(default_factory=dict)
    _needs: dict[JobId, int] = field(default_factory=dict)
    _started: set[JobId] = field(default_factory=set)

    def note(self, fact: Fact) -> None:
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
                self._leave(job_id, RESERVED)
            case Exited(job=job_id):
                self._started.discard(job_id)
                self._leave(job_id, GUEST_LOAD if self._guests[job_id] else RESERVED + STARTED)

    def _join(self, node: Node) -> None:
        self.open[node.id] = list(range(len(node.gpus)))
        self.open_gpus += len(node.gpus)
        self.kinds.update(node.gpus)
        for index, gpu in enumerate(node.gpus):
            seat = node.id, index
            self._joined += 1
            self.gpus[seat], self.load[seat], self._number[seat] = gpu, 0.0, self._joined
            insort(self.room, (0.0, self._joined, seat))

    def _lose(self, node: NodeId) -> None:
        self.open_gpus -= len(self.open.pop(node, ()))
        self.load = {seat: load for seat, load in self.load.items() if seat[0] != node}
        self.room = [entry for entry in self.room if entry[2][0] != node]
        for job, held in self._held.items():
            if any(seat[0] == node for seat in held):
                self._held[job] = {seat for seat in held if seat[0] != node}
                self.ready.discard(job)
                if not self._held[job]:
                    self._started.discard(job)

    def _add(self, seat: Seat, load: float) -> None:
        before, number = self.load[seat], self._number[seat]
        after = self.load[seat] = before + load
        if before < FULL:
            del self.room[bisect_left(self.room, (before, number, seat))]
        if after < FULL:
            insort(self.room, (after, number, seat))

    def _disown(self, seat: Seat) -> None:
        insort(self.open[seat[0]], seat[1])
        self.open_gpus += 1

    def _start(self, job: JobId, slots: Slots) -> None:
        self._started.add(job)
        if self._guests[job]:
            self._held[job] = set(seats_of(slots))
        else:
            self._reserve(job, slots)
        for seat in seats_of(slots):
            self._add(seat, GUEST_LOAD if self._guests[job] else STARTED)

    def _reserve(self, job: JobId, slots: Slots) -> None:
        held = self._held.setdefault(job, set())
        for seat in sorted(held - set(seats_of(slots))):
            held.discard(seat)
            self._add(seat, -RESERVED)
            self._disown(seat)
        for seat in seats_of(slots):
            if seat not in held:
                held.add(seat)
                self._add(seat, RESERVED)
                if seat[1] in self.open[seat[0]]:
                    self.open[seat[0]].remove(seat[1])
                    self.open_gpus -= 1
        self.ready.discard(job)
        if job not in self._started and len(held) >= self._needs[job]:
            self.ready.add(job)

    def _leave(self, job: JobId, load: float) -> None:
        self.ready.discard(job)
        for seat in sorted(self._held.pop(job, ())):
            self._add(seat, -load)
            if not self._guests[job] and not self._has_owner(seat):
                self._disown(seat)

    def _has_owner(self, seat: Seat) -> bool:
        return any(seat in held for job, held in self._held.items() if not self._guests[job])


def seats_of(slots: Slots) -> Iterator[Seat]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)


def slots_of(seats: Iterable[Seat]) -> Slots:
    by_node: dict[NodeId, list[int]] = {}
    for node, gpu in seats:
        by_node.setdefault(node, []).append(gpu)
    return tuple((node, tuple(sorted(numbers))) for node, numbers in by_node.items())
