"""The interface of planners, which decide after each event what to start and stop.

`choice.planner_of` picks the planner of a policy once, when the scheduler is made; no other code
distinguishes kinds of policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from weft.core.planning.allocator import Allocator, Decide
from weft.core.planning.preemption_cache import PreemptionCache
from weft.core.planning.view import ClusterView
from weft.core.ports import Placement, Policy, Replanner
from weft.core.queue.order import Order
from weft.core.queue.protection import Protection
from weft.core.state.state import State
from weft.model import Planned, Seconds


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

    def view(self) -> ClusterView:
        return ClusterView(self.state, self.order, self.placement, self.memo, restarts_all=self.restarts_all)

    @property
    def memo(self) -> Any:
        return self.order.memo

    def is_due(self) -> bool:
        """Return whether the interval since the last plan is over."""
        return self.state.now >= self.state.planned_at + self.interval_s


class Planner:
    """The base of planners. It decides through `context.decide`, which applies each decision to the state at once."""

    preempts_by_key: ClassVar[bool] = False
    """True if a waiting job may take the GPUs of a run with a larger key."""
    reserves: ClassVar[bool] = False
    """True if the first job that does not fit gets a reservation: the order then keeps the ends of runs."""
    replaces_order: ClassVar[bool] = False
    """True if a plan ranks all jobs itself. The order need not follow each decision; all running keys are checked."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lets_pass = context.policy.backfill
        """True if jobs may start before a job that is ahead of them and does not fit."""
        self._wake_at: Seconds | None = None
        """When the policy wants to plan again although nothing happens."""

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
