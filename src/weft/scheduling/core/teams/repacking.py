"""All jobs of teams in an order of their own kind: guaranteed ones first, then those that may borrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.scheduling.core.ports import Ask
from weft.scheduling.core.queue.cursors import Cursor, Entry, QueueCursor, StreamCursor
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams.standing import Standing, units_of

if TYPE_CHECKING:
    from weft.scheduling.core.teams.context import TeamContext


def waiting_cursor(context: TeamContext) -> QueueCursor | StreamCursor:
    """Return the waiting jobs in the order of the policy; without a key, first come first."""
    order, state = context.order, context.state
    order.drain(state)
    top = state.resources.after_release.top
    if order.keyed:
        return QueueCursor(order.waiting.values(), top)
    streams: dict[Shape, list[Entry]] = {}
    for job in sorted(state.waiting.values(), key=lambda job: job.seq):
        streams.setdefault(job.shape, []).append((0.0, job.seq, job))
    return StreamCursor(map(iter, streams.values()), top)


class JobCursor(StreamCursor):
    """A cursor over the jobs that wait or run: those within guarantees first, then those that may borrow."""

    def __init__(self, context: TeamContext, entries: StreamCursor) -> None:
        Cursor.__init__(self, context.state.resources.after_release.top)
        plan = _Plan(context)
        every = list(entries)
        sure = [entry for entry in every if plan.covers((entry[2],))]
        names = {entry[2].id for entry in sure}
        self._entries = [*sure, *(entry for entry in every if entry[2].id not in names and plan.lends((entry[2],)))]

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._entries if not self.dropped(entry[2].shape))


def arrange_asks(context: TeamContext, asks: list[Ask]) -> list[Ask]:
    """Return the asks with those within guarantees first, and without those that may not borrow."""
    plan, jobs = _Plan(context), context.state.jobs
    sure = [plan.covers([jobs[job] for job in ask.jobs if job in jobs]) for ask in asks]
    first = [ask for ask, covered in zip(asks, sure, strict=True) if covered]
    rest = [ask for ask, covered in zip(asks, sure, strict=True) if not covered]
    asked = {job for ask in asks for job in ask.jobs}
    runs = [run for run in context.state.active.values() if run.job.replica is None and not run.releasing]
    unnamed = [job for job in (*runs, *(job for _, _, job in waiting_cursor(context))) if job.id not in asked]
    first += [Ask((job.id,), job.gpus, job.wanted_share) for job in unnamed if plan.covers((job,))]
    return [*first, *(ask for ask in rest if plan.lends([jobs[job] for job in ask.jobs if job in jobs]))]


class _Plan:
    """The standing of teams in a plan from scratch: only replicas hold GPUs at first."""

    def __init__(self, context: TeamContext) -> None:
        self._context = context
        replicas = [run for run in context.state.active.values() if run.job.replica is not None and not run.releasing]
        self._standing = Standing(context.state.teams, units_of(replicas))

    def covers(self, jobs: list[JobState] | tuple[JobState, ...]) -> bool:
        """Return whether a guarantee has room for these jobs, which run together; count them if so."""
        if not jobs or not self._standing.is_entitled(jobs[0]) or self._standing.full_team(jobs[0]) is not None:
            return False
        self._standing.expect(jobs[0])
        return True

    def lends(self, jobs: list[JobState] | tuple[JobState, ...]) -> bool:
        """Return whether these jobs may borrow; count them if so."""
        now, context = self._context.state.now, self._context
        if not jobs or self._standing.full_team(jobs[0]) is not None:
            return False
        if any(job.waits and context.borrows_from(job) > now for job in jobs):
            return False
        self._standing.expect(jobs[0])
        return True
