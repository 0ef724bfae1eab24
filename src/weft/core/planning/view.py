"""The cluster as a replanner sees it: the state, the order and the policy's memory, for one instant."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from weft.core.planning.tentative import Scratch
from weft.core.ports import Placement
from weft.core.queue.cursors import Streams
from weft.core.queue.order import Order
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model import JobId, Seconds


class Snapshot:
    """Implements `ports.View`."""

    def __init__(self, state: State, order: Order, placement: Placement, memo: Any) -> None:
        self._state, self._order, self._placement = state, order, placement
        self.memo = memo
        self.now: Seconds = state.now
        self.gpus = state.gpus
        self._active: dict[Shape, list[tuple[float, int, JobState]]] | None = None

    @property
    def node_gpus(self) -> Mapping[str, int]:
        return {room.node.id: len(room.node.gpus) for room in self._state.floor.rooms if room.alive}

    @property
    def waiting(self) -> Iterator[JobState]:
        return iter(self._state.waiting.values())

    @property
    def active(self) -> Iterator[JobState]:
        return (job for job in self._state.active.values() if not job.leaving)

    @property
    def idle_gpus(self) -> int:
        return self._state.floor.idle.total()

    @property
    def full(self) -> bool:
        return self._state.floor.idle.exhausted() and self._order.all_want_whole_gpus()

    def firsts(self) -> Iterator[tuple[Hashable, JobState]]:
        return self._order.queues.firsts()

    def first(self, queue: Hashable) -> JobState | None:
        return self._order.queues.first(queue)

    def queued(self, queue: Hashable) -> list[JobState]:
        return self._order.queues.queued(queue)

    def job(self, job: JobId) -> JobState:
        return self._state.jobs[job]

    def shapes(self) -> list[Shape]:
        shapes = {shape: None for shape, entries in self._order.waiting.items() if entries}
        shapes.update(dict.fromkeys(self._running()))
        return list(shapes)

    def ordered(self, shape: Shape) -> Iterator[tuple[float, JobState]]:
        return ((key, job) for key, _, job in self._order.ordered(shape, self._running().get(shape, [])))

    def heads(self) -> Streams:
        """All jobs, best first."""
        running = self._running()
        streams = (iter(self._order.ordered(shape, running.get(shape, []))) for shape in self.shapes())
        return Streams(streams, self._state.floor.soon.top)

    def trial(self) -> Scratch:
        return Scratch(self._state, self._placement)

    def _running(self) -> dict[Shape, list[tuple[float, int, JobState]]]:
        """Active jobs by shape with their keys, smallest first."""
        if self._active is None:
            self._active = {}
            for entry in self._order.ranked(self.active, self.now):
                self._active.setdefault(entry[2].shape, []).append(entry)
        return self._active
