"""The interface of planners, which decide after each event what to start and stop.

`choice.planner_of` picks the planner of a policy once, when the scheduler is made; no other code
distinguishes kinds of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from weft.model import JobId, Planned, Seconds
from weft.scheduling.core.planning.allocator import Allocator, Decide
from weft.scheduling.core.planning.preemption_cache import PreemptionCache
from weft.scheduling.core.planning.view import ClusterView
from weft.scheduling.core.ports import Ask, Placement, Policy, Replanner
from weft.scheduling.core.queue.cursors import QueueCursor, StreamCursor
from weft.scheduling.core.queue.order import Order
from weft.scheduling.core.queue.protection import UNPROTECTED, Protection
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


def wakes(policy: Policy) -> TypeGuard[Replanner]:
    """Return whether a policy names times at which it plans although nothing happens."""
    return isinstance(policy, Replanner) and type(policy).wake_at is not Replanner.wake_at


@dataclass(slots=True)
class Context:
    """The state, order and settings that planners work with."""

    state: State
    order: Order
    policy: Policy
    placement: Placement
    protection: Protection
    allocator: Allocator
    cache: PreemptionCache
    interval_s: float
    """Plan at most this often; 0: whenever something happens."""
    decide: Decide
    restarts_all: bool = False
    """True if each plan restarts every run."""

    remembers: ClassVar[bool] = True
    """True if what one pass finds out stays valid while no GPU changes."""
    refuses: ClassVar[bool] = False
    """True if jobs that a plan asks for may be refused: others get their GPUs."""

    def view(self) -> ClusterView:
        return ClusterView(
            self.state, self.order, self.placement, self.memo, restarts_all=self.restarts_all,
            weaves=self.policy.weaves,
        )  # fmt: skip

    @property
    def memo(self) -> Any:
        return self.order.memo

    def is_due(self) -> bool:
        """Return whether the interval since the last plan is over."""
        return self.state.now >= self.state.planned_at + self.interval_s

    # ---- what a layer between order and placement may change

    def cursor(self, *, fresh: bool = False) -> QueueCursor:
        """Return the waiting jobs, best first; with `fresh`, only those of shapes whose first job is new."""
        return self.order.cursor(self.state.resources.after_release.top, fresh=fresh)

    def all_jobs(self) -> StreamCursor:
        """Return the jobs that wait or hold GPUs, best first."""
        return self.view().cursor()

    def asks(self) -> Iterable[Ask]:
        """Return the asks of a replanner, most wanted first; a planner that never preempts takes them one by one."""
        assert isinstance(self.policy, Replanner)
        return self.policy.rank(self.view())

    def all_asks(self) -> Iterable[Ask]:
        """Return the asks of a replanner for an emptied cluster."""
        return self.asks()

    def victims(self, job: JobState, runs: Iterator[JobState]) -> Iterator[JobState]:  # noqa: ARG002
        """Return those of the runs that may be preempted for the job."""
        return runs

    def fixed_runs(self, asks: Sequence[Ask]) -> Iterator[set[JobId]]:  # noqa: ARG002
        """Yield sets of runs that a layout must leave in place; `accepts` says whether the next set is needed."""
        protected: set[JobId] = set()
        if self.protection is not UNPROTECTED:
            runs, now = self.state.active.values(), self.state.now
            protected = {job.id for job in runs if self.protection.until(job) > now}
        yield protected

    def accepts(self, staying: Iterable[tuple[Sequence[JobState], float]]) -> bool:  # noqa: ARG002
        """Return whether a layout may leave only these jobs with GPUs; a weave comes with its number of GPUs."""
        return True

    def kept_gpus(self) -> Mapping[int, int]:
        """Return GPUs of each node that a layout must leave free."""
        return {}

    def admits(self, job: JobState) -> bool:  # noqa: ARG002
        """Return whether a waiting replica may have GPUs now."""
        return True

    def is_guaranteed(self, job: JobState) -> bool:  # noqa: ARG002
        """Return whether a waiting replica may have GPUs by the guarantee of its team."""
        return True

    def has_promise(self, job: JobState) -> bool:  # noqa: ARG002
        """Return whether a waiting job was promised GPUs before, at this instant."""
        return False

    def note_promise(self, job: JobState) -> None:
        """Note that a waiting job was promised GPUs."""

    def reclaim(self, job: JobState) -> bool:  # noqa: ARG002
        """Stop runs on borrowed GPUs for a job to which they are guaranteed; return whether it gets GPUs so."""
        return False


class Planner:
    """The base of planners. It decides through `context.decide`, which applies each decision to the state at once."""

    preempts_by_key: ClassVar[bool] = False
    """True if a waiting job may take the GPUs of a run with a larger key."""
    reserves: ClassVar[bool] = False
    """True if the first job that does not fit gets a reservation: the order then keeps the ends of runs."""
    replaces_order: ClassVar[bool] = False
    """True if a plan ranks all jobs itself. The order need not follow each decision; all running keys are checked."""

    def __init__(self, context: Context) -> None:
        self.use(context)
        self.lets_pass = context.policy.backfill
        """True if jobs may start before a job that is ahead of them and does not fit."""
        self._wake_at: Seconds | None = None
        """When the policy wants to plan again although nothing happens."""

    def use(self, context: Context) -> None:
        """Plan with this context from now on."""
        self.context = context

    def settle_ties(self) -> None:
        """Bring the tie-breakers up to date with the facts of this instant; also called in a replay."""

    def step(self) -> None:
        """Plan after an event, unless the next plan is not due yet."""
        raise TypeError(f"{type(self).__name__} has no step")

    def next_plan_at(self) -> Seconds | None:
        """Return when it plans next, if a plan waits for the interval to end. A paused scheduler plans nothing."""
        state, interval_s = self.context.state, self.context.interval_s
        if not interval_s or not state.news or state.paused or state.planned_at == float("-inf"):
            return None
        return state.planned_at + interval_s

    def restore_wake(self, at: Seconds | None) -> None:
        """Set when the policy wants to plan again, as the last alarm of a journal says."""
        self._wake_at = at

    def next_wake(self) -> Seconds | None:
        """Return when the policy wants to plan again although nothing happens; None: never, or its time is past."""
        at = self._wake_at
        return at if at is not None and at > self.context.state.now else None


class RoundPlanner(Planner):
    """A planner that plans from scratch after each event, or once per interval."""

    def step(self) -> None:
        context = self.context
        state, interval_s = context.state, context.interval_s
        if interval_s and not context.is_due():
            state.news = True  # for the next round
            return
        context.order.drain(state)
        state.news = state.vacated = False
        self.plan()
        if interval_s:
            context.decide(Planned(state.now))

    def plan(self) -> None:
        raise TypeError(f"{type(self).__name__} has no plan")


class TargetPlanner(Planner):
    """A planner that plans the whole cluster at intervals, and works towards that plan in between."""

    replans_vacated: ClassVar[bool] = False
    """True if an exit that nothing waits for calls for a plan."""

    def step(self) -> None:
        context = self.context
        state = context.state
        # a run was stopped for jobs that have ended before it has: its own job is in no plan
        is_unplanned = (
            self.replans_vacated and state.vacated and not state.news and not state.pending and bool(state.waiting)
        )
        if is_unplanned and not context.interval_s:
            state.news = True
        planned = state.news and context.is_due()
        if planned:
            state.news = False
            context.order.drain(state)
            self.replan()
            self._wake_at = self._wanted_wake()
        state.vacated = False
        self.work_towards(planned=planned)
        if is_unplanned and not planned:
            state.news = True  # for the next plan

    def _wanted_wake(self) -> Seconds | None:
        policy, state = self.context.policy, self.context.state
        return policy.wake_at(self.context.view()) if wakes(policy) and (state.waiting or state.active) else None

    def replan(self) -> None:
        """Make a new plan."""
        raise TypeError(f"{type(self).__name__} has no replan")

    def work_towards(self, *, planned: bool) -> None:
        """Do what the present plan still needs; `planned`: it was made at this instant."""
