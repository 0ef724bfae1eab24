"""Planning as Muri does: place everything on an emptied cluster, then move to that target."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from weft.model import JobId, Rewoven, Share, Slots, Start, Stop, StopReason
from weft.scheduling.core.planning.allocator import Decide
from weft.scheduling.core.planning.asks import ask_shape, jobs_of, refuse_twice
from weft.scheduling.core.planning.planner import Context, TargetPlanner
from weft.scheduling.core.planning.tentative import TentativeCluster
from weft.scheduling.core.ports import Ask, Placement
from weft.scheduling.core.queue.cursors import StreamCursor
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


@dataclass(slots=True)
class Assignment:
    """A part of a target: these jobs on these GPUs."""

    jobs: tuple[JobState, ...]
    shape: Shape
    slots: Slots
    share: Share
    weave: tuple[JobId, ...]


Wanted = Iterable[tuple[tuple[JobState, ...], Shape, Share]]
"""Jobs to run together, what they need together, and the share they hold."""


def repack(state: State, wanted: Wanted, placement: Placement, fail: Callable[[Shape], None]) -> list[Assignment]:
    """Return the target: everything wanted, in that order, placed on an emptied cluster where it fits."""
    cluster, chosen = TentativeCluster(state, placement), []
    for jobs, shape, share in wanted:
        slots = cluster.allocate(shape)
        if slots is None:
            fail(shape)
            continue
        weave = tuple(sorted([job.id for job in jobs])) if len(jobs) > 1 else ()
        chosen.append(Assignment(jobs, shape, slots, share, weave))
    if placement.splits_gangs:
        _keep_in_place(TentativeCluster(state, placement), chosen)
    return chosen


def _keep_in_place(cluster: TentativeCluster, chosen: list[Assignment]) -> None:
    """Keep runs that match the target on the GPUs they have, if all others still fit; only for plain shapes."""
    if not all(assignment.shape.plain for assignment in chosen):
        return
    kept = {}
    for assignment in chosen:
        job = assignment.jobs[0]
        if job.active and job.weave == assignment.weave and cluster.vacant(job.slots):
            cluster.keep(assignment.shape, job.slots)
            kept[id(assignment)] = job.slots
    for assignment in chosen:
        if id(assignment) not in kept:
            slots = cluster.allocate(assignment.shape)
            if slots is None:
                return
            kept[id(assignment)] = slots
    for assignment in chosen:
        assignment.slots = kept[id(assignment)]


def solo(cursor: StreamCursor) -> Wanted:
    return (((job,), job.shape, job.wanted_share) for _, _, job in cursor)


def as_wanted(state: State, asks: Iterable[Ask]) -> Wanted:
    asks = list(asks)
    refuse_twice(asks)
    for ask in asks:
        jobs = jobs_of(state, ask)
        yield jobs, ask_shape(state, ask, jobs, keeps_where=True), ask.share


def move_to(state: State, target: list[Assignment], decide: Decide) -> None:
    """Stop the runs that are not in the target, and give the ones that stay their partners; once the stopped runs have
    exited, start the rest."""
    assigned = {job.id: assignment for assignment in target for job in assignment.jobs}
    stops: list[tuple[JobState, StopReason]] = []
    others: list[Rewoven] = []
    for job in state.active.values():
        assignment = assigned.get(job.id)
        if job.releasing or job.job.replica is not None:
            continue
        if assignment is None or assignment.slots != job.slots:
            stops.append((job, "preempted" if assignment is None else "moved"))
        elif assignment.weave != job.weave:
            others.append(Rewoven(state.now, job.id, job.run, assignment.weave))
    for job, why in sorted(stops, key=lambda stop: stop[0].tie_breaker, reverse=True):
        decide(Stop(state.now, job.id, job.run, why))
    for rewoven in others:
        decide(rewoven)
    if state.resources.releasing:
        return
    starts = [(job, assignment) for assignment in target for job in assignment.jobs if job.status == "waiting"]
    for job, assignment in sorted(starts, key=lambda start: start[0].tie_breaker):
        decide(Start(state.now, job.id, job.run + 1, assignment.slots, assignment.share, assignment.weave))


class RepackPlanner(TargetPlanner):
    """A planner that keeps a target and moves to it. Subclasses define `replan`."""

    replaces_order: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._target: list[Assignment] = []

    def work_towards(self, *, planned: bool) -> None:  # noqa: ARG002
        move_to(self.context.state, self._target, self.context.decide)


class RepackKeysPlanner(RepackPlanner):
    """The repack planner of a key policy: the target has every job, best first, where it fits.

    Muri's simulator sorts one list of jobs at each event, so equal keys keep their order of the event before. Keys that
    step are queues, whose order the facts keep.
    """

    preempts_by_key: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._ranks: dict[JobId, tuple[float, int]] = {}
        """The key and the tie-breaker of each job as of the last event."""
        self._first = self._last = 0

    def settle_ties(self) -> None:
        """Set the tie-breakers as one list would: a key that fell comes after its equals, a key that rose before."""
        if self.context.order.steps:
            return
        state, key, ranks = self.context.state, self.context.order.key, self._ranks
        listed = (job for job in state.touched.values() if job.ended_at is None and job.job.replica is None)
        risen: list[tuple[JobState, float]] = []
        for job in sorted(listed, key=lambda job: ranks.get(job.id, (inf, self._last + job.seq))):
            rank, now = ranks.get(job.id), key(job, state.now)
            if rank is not None and now > rank[0]:
                risen.append((job, now))
            elif rank is None or now < rank[0]:
                self._last += 1
                ranks[job.id] = now, self._last
        for job, now in reversed(risen):
            self._first -= 1
            ranks[job.id] = now, self._first
        for job in state.touched.values():
            if job.id in ranks:
                job.tie_breaker = ranks[job.id][1]

    def replan(self) -> None:
        context = self.context
        cursor = context.all_jobs()
        self._target = repack(context.state, solo(cursor), context.placement, cursor.fail)


class RepackAsksPlanner(RepackPlanner):
    """The repack planner of a replanner: the target has its asks, where they fit."""

    def replan(self) -> None:
        context = self.context
        wanted = as_wanted(context.state, context.all_asks())
        self._target = repack(context.state, wanted, context.placement, lambda _: None)
