"""The cluster as a replanner sees it while there are teams: without the waiting jobs that no plan may start.

A replanner plans the whole cluster at once. If it planned for jobs that their team then refuses, the GPUs of these jobs
would stay idle while jobs of other teams wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from weft.model import JobId
from weft.scheduling.core.planning.view import ClusterView
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams.repacking import waiting_cursor

if TYPE_CHECKING:
    from weft.scheduling.core.teams.context import TeamContext


class TeamView(ClusterView):
    """A view of the jobs that their teams may run, as many as may run at the same time."""

    def __init__(self, context: TeamContext) -> None:
        super().__init__(
            context.state, context.order, context.placement, context.memo, restarts_all=context.restarts_all,
            weaves=context.policy.weaves,
        )  # fmt: skip
        self._context = context
        self._shown: set[JobId] | None = None

    @property
    def waiting(self) -> Iterator[JobState]:
        return filter(self._shows, super().waiting)

    @property
    def active(self) -> Iterator[JobState]:
        runs = super().active
        return filter(self._shows, runs) if self.restarts_all else runs

    def ordered(self, shape: Shape) -> Iterator[tuple[float, JobState]]:
        return (entry for entry in super().ordered(shape) if not entry[1].waits or self._shows(entry[1]))

    def in_order(self) -> Iterator[tuple[float, JobState]]:
        return (entry for entry in super().in_order() if not entry[1].waits or self._shows(entry[1]))

    def firsts(self) -> Iterator[tuple[Hashable, JobState]]:
        return ((queue, self.first(queue) or first) for queue, first in super().firsts())

    def first(self, queue: Hashable) -> JobState | None:
        """Return the first job in a queue that its team may run. If there is none, return the first of all: a policy
        may count on it that a queue does not get empty while it plans, and the ask for the job is refused."""
        first = super().first(queue)
        if first is None or self._shows(first):
            return first
        return next(filter(self._shows, super().queued(queue)), first)

    def queued(self, queue: Hashable) -> list[JobState]:
        if self._context.policy.preempts:
            return list(filter(self._shows, super().queued(queue)))
        return list(self._together(super().queued(queue)))

    def _shows(self, job: JobState) -> bool:
        context = self._context
        if not context.policy.preempts:  # its asks are served one by one, and each changes what the next may have
            return job.id not in context.served and context.refusal(job) is None
        if self._shown is None:
            self._shown = {job.id for job in (self._all_shown() if self.restarts_all else self._waiting_shown())}
        return job.id in self._shown

    def _waiting_shown(self) -> Iterator[JobState]:
        """Yield waiting jobs in the order of the policy, as long as their teams may run them next to the runs. Those
        that are served hold GPUs in a plan, too."""
        context, cursor = self._context, waiting_cursor(self._context)
        yield from map(context.state.jobs.__getitem__, context.served)
        yield from self._together((job for _, _, job in cursor), cursor.fail)

    def _together(self, jobs: Iterable[JobState], fail: Callable[[Shape], None] = lambda _: None) -> Iterator[JobState]:
        """Yield those of the waiting jobs that may run at the same time; call `fail` for a shape that may not."""
        context, standing, counted = self._context, self._context.standing, list[JobState]()
        for job in jobs:
            if job.id in context.served:
                continue
            refused = context.refusal(job)
            if refused is None:
                yield job
                standing.expect(job)
                counted.append(job)
            elif refused != "reclaimed":
                fail(job.shape)
        for job in counted:
            standing.unexpect(job)

    def _all_shown(self) -> Iterator[JobState]:
        """Yield the jobs that the teams may run if every run restarts."""
        return (job for _, _, job in self._context.all_jobs())
