"""The planner of services. It comes before the planner of the policy, so that replicas come before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.model import Seconds
from weft.scheduling.core.planning.allocator import Allocator
from weft.scheduling.core.planning.planner import Context
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.services.moves import ReplicaMoves
from weft.scheduling.core.services.replicas import changes, drained_by, rollback_of
from weft.scheduling.core.state.job import JobState

ANY_RUN = (float("-inf"), 0)
"""A key and a tie-breaker that come before those of all runs."""


class ServicePlanner:
    """Adds, drains and ends replicas, and gives GPUs to the ones that wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.moves = ReplicaMoves(context, self.settle)

    def use(self, context: Context) -> None:
        """Plan with this context from now on."""
        self._context = context
        self.moves.use(context)

    @property
    def keeps_gpus(self) -> bool:
        """True while GPUs are promised to replicas."""
        return bool(self._context.allocator.kept)

    def settle(self) -> None:
        """Bring the replicas of all services closer to what they are to have."""
        state = self._context.state
        due = self.next_deadline()
        if not state.services.unsettled and (due is None or due > state.now):
            return
        for service in list(state.services.by_name.values()):
            if (rollback := rollback_of(service, state.now)) is not None:
                self._context.decide(rollback)
            while found := list(changes(service, state.now)):  # a drained replica makes room for a new one
                for change in found:
                    self._context.decide(change)
        state.services.unsettled = False

    def next_deadline(self) -> Seconds | None:
        """Return when the next draining replica must end."""
        services = self._context.state.services.by_name.values()
        return min((due for service in services if (due := drained_by(service)) is not None), default=None)

    def next_wake(self) -> Seconds | None:
        """Return when the next draining replica must end, or the next move may begin."""
        times = (self.next_deadline(), self.moves.next_try())
        return min((due for due in times if due is not None), default=None)

    def place(self, *, guaranteed: bool = False) -> None:
        """Start waiting replicas, or promise them GPUs; runs are preempted for them if the policy preempts.
        `guaranteed`: only replicas within the guarantees of their teams. `place_others` serves the rest."""
        context = self._context
        context.allocator.kept = {}
        self._place(context.is_guaranteed if guaranteed else context.admits)

    def place_others(self) -> None:
        """Do the same for the replicas that borrow, after the jobs to which GPUs are guaranteed."""
        self._place(self._context.admits)

    def _place(self, admits: Callable[[JobState], bool]) -> None:
        context = self._context
        state, allocator = context.state, context.allocator
        allocator.begin()
        hopeless: set[Shape] = set()
        for replica in sorted(state.services.waiting.values(), key=lambda replica: replica.seq):
            shape = replica.shape
            if shape in hopeless or context.has_promise(replica) or not admits(replica):
                continue
            if allocator.start((replica,), shape, replica.wanted_share):
                continue
            if allocator.promise(shape) or context.reclaim(replica) or self._preempt(allocator, replica, shape):
                context.note_promise(replica)
            else:
                hopeless.add(shape)
        allocator.kept = allocator.promised

    def _preempt(self, allocator: Allocator, replica: JobState, shape: Shape) -> bool:
        context = self._context
        if not context.policy.preempts or not shape.gpus:
            return False
        victims = context.victims(replica, self._victims())
        return allocator.preempt(shape, allocator.find_victims(shape, victims))

    def _victims(self) -> Iterator[JobState]:
        """Yield the runs that may be preempted for a replica, worst first."""
        context, state = self._context, self._context.state
        if context.order.keyed and context.order.ranks_runs:
            context.order.drain(state)
            return context.order.worst(state.now, ANY_RUN)
        runs = (run for run in state.active.values() if run.job.replica is None and not run.releasing)
        able = [run for run in runs if context.protection.until(run) <= state.now]
        return iter(sorted(able, key=lambda run: run.tie_breaker, reverse=True))
