"""The cluster as a replanner sees it: the state, the order and the policy's memory, for one instant."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from heapq import merge
from math import inf
from typing import Any, Final

from weft.model import JobId, Profile, Seconds
from weft.scheduling.core.planning.tentative import TentativeCluster
from weft.scheduling.core.planning.weave_layout import LayoutCluster, is_blocked
from weft.scheduling.core.ports import JobView, Placement
from weft.scheduling.core.queue.cursors import StreamCursor
from weft.scheduling.core.queue.order import Order
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

USUAL_LOSS_S: Final = 300.0
"""The work that a preempted run usually loses: half the time between two checkpoints of ten minutes."""


class ClusterView:
    """The implementation of `ports.View`."""

    def __init__(
        self,
        state: State,
        order: Order,
        placement: Placement,
        memo: Any,
        *,
        restarts_all: bool = False,
        weaves: bool = False,
    ) -> None:
        self._state, self._order, self._placement = state, order, placement
        self.memo = memo
        self.restarts_all = restarts_all
        self._some_stay = weaves and any(host.closures or host.occupants for host in state.resources.nodes)
        self.now: Seconds = state.now
        self.gpus = state.gpus
        self._active: dict[Shape, list[tuple[float, int, JobState]]] | None = None

    @property
    def node_gpus(self) -> Mapping[str, int]:
        return {host.node.id: len(host.node.gpus) for host in self._state.resources.nodes if host.alive}

    @property
    def waiting(self) -> Iterator[JobState]:
        return iter(self._state.waiting.values())

    @property
    def active(self) -> Iterator[JobState]:
        state = self._state
        jobs = (job for job in state.active.values() if not job.releasing and job.job.replica is None)
        return jobs if not self._some_stay else (job for job in jobs if not is_blocked(state, job.slots))

    @property
    def idle_gpus(self) -> int:
        return self._state.resources.idle.total()

    @property
    def full(self) -> bool:
        return self._state.resources.idle.exhausted() and self._order.all_want_whole_gpus()

    def firsts(self) -> Iterator[tuple[Hashable, JobState]]:
        return self._order.queues.firsts()

    def first(self, queue: Hashable) -> JobState | None:
        return self._order.queues.first(queue)

    def queued(self, queue: Hashable) -> list[JobState]:
        return self._order.queues.queued(queue)

    def job(self, job: JobId) -> JobState:
        return self._state.jobs[job]

    def profile(self, job: JobView) -> Profile | None:
        return self._state.profiles.of(job.job)

    def expected_left_s(self, job: JobView) -> float:
        left_s = job.remaining(self.now)
        similar = self._state.durations.similar(job.job) if left_s == inf else None
        return left_s if similar is None else max(similar.mean_s - job.attained(self.now), 0.0)

    def restart_cost_s(self, job: JobView) -> Seconds:
        profile = self.profile(job)
        start_s = profile.start_s if profile is not None else 0.0
        state = self._state.jobs[job.id]
        worked_s = max(self.now - state.started_at, 0.0) * state.rate if state.active else 0.0
        return start_s + min(worked_s, USUAL_LOSS_S)

    def shapes(self) -> list[Shape]:
        shapes = {shape: None for shape, entries in self._order.waiting.items() if entries}
        shapes.update(dict.fromkeys(self._running()))
        return list(shapes)

    def ordered(self, shape: Shape) -> Iterator[tuple[float, JobState]]:
        return ((key, job) for key, _, job in self._order.ordered(shape, self._running().get(shape, [])))

    def in_order(self) -> Iterator[tuple[float, JobState]]:
        running = self._running()
        entries = merge(*(self._order.ordered(shape, running.get(shape, [])) for shape in self.shapes()))
        return ((key, job) for key, _, job in entries)

    def cursor(self) -> StreamCursor:
        """Return all jobs, best first."""
        running = self._running()
        streams = (iter(self._order.ordered(shape, running.get(shape, []))) for shape in self.shapes())
        return StreamCursor(streams, self._state.resources.after_release.top)

    def trial(self) -> TentativeCluster:
        if self._some_stay:
            return LayoutCluster(self._state, self._placement, {})
        return TentativeCluster(self._state, self._placement)

    def _running(self) -> dict[Shape, list[tuple[float, int, JobState]]]:
        """Return the active jobs by shape with their keys, smallest first."""
        if self._active is None:
            self._active = {}
            for entry in self._order.ranked(self.active, self.now):
                self._active.setdefault(entry[2].shape, []).append(entry)
        return self._active
