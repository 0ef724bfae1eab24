"""The scheduler: events in, decisions out. The same object drives the simulator, one machine and a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.core.admission import check_job
from weft.core.planning.allocator import Allocator
from weft.core.planning.plan import go_on, start_asks, walk_asks, walk_keys
from weft.core.planning.preemption_cache import PreemptionCache
from weft.core.planning.repack import Assignment, as_wanted, move_to, repack, solo
from weft.core.planning.view import ClusterView
from weft.core.ports import Placement, Policy, Replanner
from weft.core.queue.order import UNPROTECTED, Order, Protection, Resorted
from weft.core.state.eligibility import NEVER
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.errors import PlanError
from weft.model import Alarm, Decision, Event, Fact, KeyChanged, Planned, Seconds, Stop, Submitted


class Scheduler:
    """`step(*events)` takes all events of one instant and returns what to do about them.

    With `repack`, every plan empties the cluster in thought and places everything anew, as Muri's simulator does;
    without it, what runs stays where it is unless somebody better needs the room. `resort` sorts all anew at each step.
    `protection` says which runs are not preempted. `interval_s` makes rounds: so long nothing is planned after a plan.
    """

    def __init__(
        self,
        policy: Policy,
        placement: Placement,
        *,
        repack: bool = False,
        resort: bool = False,
        interval_s: float | None = None,
        protection: Protection = UNPROTECTED,
    ) -> None:
        self.policy, self.placement = policy, placement
        self.state = State(policy.oversubscription)
        self._repack = repack and policy.preempts
        self._replanner = policy if isinstance(policy, Replanner) else None
        self._walks = self._replanner is None and not self._repack
        order = Resorted if resort else Order
        self.order = order(policy, victims=policy.preempts and self._walks, protection=protection)
        self.protection = protection
        self._reach = PreemptionCache(self.state, self.order, fills_nodes=placement.fills_nodes)
        self._walk = Allocator(self.state, placement, self._decide)
        self.memo = self.order.memo = policy.memo()
        self._observes = type(policy).observe is not Policy.observe
        self._steps = self.order.steps and not self.order.remembers
        self._epoch = policy.epoch(self.memo)
        self.keyed = self.order.keyed
        if self._replanner is None and not self.keyed:
            raise PlanError(f"policy {type(policy).__name__} has no key: define key(self, job, now)")
        if interval_s is None:
            interval_s = self._replanner.interval_s if self._replanner else 0.0
        self._interval_s = interval_s
        self._wakes = self._steps or bool(interval_s) or protection is not UNPROTECTED
        self._target: list[Assignment] = []
        self.alarm: Seconds | None = None
        """When it wants to be woken."""
        self._decisions: list[Decision] = []

    def step(self, *events: Event) -> list[Decision]:
        """Takes what happened at one instant; returns the decisions, already applied to the state."""
        self._decisions = []
        for event in events:
            if type(event) is Submitted:
                check_job(event.job)
        for event in events:
            self.fold(event)
        if self.state.orphans:
            self._stop_orphans()
        if self._steps:
            self._step_keys()
        elif self.order.remembers:
            self._look_again()
        if self.protection is not UNPROTECTED:
            self._unprotect()
        self._plan()
        if self._wakes or self.state.eligibility.opens_at != NEVER or self.alarm is not None:
            self._set_alarm()
        return self._decisions

    def replay(self, facts: Iterable[Fact]) -> None:
        """Takes up a journal: the decisions in it are history, nothing is decided anew.

        A crash may have cut off the last decisions: whoever drives goes on with a `Wake`, so that all is looked at.
        """
        for fact in facts:
            self.fold(fact)
            if type(fact) is Alarm:
                self.alarm = fact.due
        self.state.news = self._interval_s > 0 and self.alarm is not None
        self.state.vacated = False
        self._drain()

    def fold(self, fact: Fact) -> bool:
        """Applies one fact to the state and to the policy's memory; False where it was stale and dropped."""
        applied = self.state.apply(fact)
        if applied and self._observes:
            self.memo = self.order.memo = self.policy.observe(self.memo, fact)
        return applied

    def _decide(self, decision: Decision) -> None:
        if not self.fold(decision):
            raise PlanError(f"{type(self.policy).__name__} led to a decision that cannot be: {decision}")
        self._decisions.append(decision)
        if not self._repack:
            self._drain()

    def _drain(self) -> None:
        """The order takes up what changed."""
        if self.keyed:
            self.order.drain(self.state)
        else:
            self.state.touched.clear()

    def _stop_orphans(self) -> None:
        """Runs that must go whatever the policy says."""
        for job in list(self.state.orphans.values()):
            if job.active and not job.releasing:
                self._decide(Stop(self.state.now, job.id, job.run, "cancelled" if job.cancelling else "node-lost"))
        self.state.orphans.clear()

    def _step_keys(self) -> None:
        """Journals the keys that have stepped: those who wait at the new key go first."""
        state, now = self.state, self.state.now
        jobs = self.order.stepping(now)
        if self._repack:  # the original looks at every running job at every event
            jobs = sorted((job for job in state.active.values() if not job.releasing), key=lambda job: job.seq)
        for job in jobs:
            key = self.policy.key(job, now)
            if key != (0.0 if job.key is None else job.key):
                self._decide(KeyChanged(now, job.id, key))

    def _look_again(self) -> None:
        """Keys that come of memory: those that were to be looked at by now, or all if much has been learned."""
        state, epoch = self.state, self.policy.epoch(self.memo)
        runs = self.order.stepping(state.now)
        if epoch != self._epoch:
            self._epoch, runs = epoch, list(state.active.values())
            state.touched.update(state.waiting)
        for job in runs:
            state.touched[job.id] = job
            state.resources.touch(job.slots)

    def _unprotect(self) -> None:
        """Runs that have lasted long enough may be preempted from now on."""
        for job in self.order.unprotected(self.state.now):
            self.state.touched[job.id] = job
            self.state.resources.touch(job.slots)

    def _plan(self) -> None:
        state = self.state
        if state.paused or not (state.news or state.vacated):
            return
        if self._walks:
            if self._interval_s and state.now < state.planned_at + self._interval_s:
                state.news = True  # for the next round
                return
            self._drain()
            state.news = state.vacated = False
            walk_keys(self._walk, self.order, self._reach)
            if self._interval_s:
                self._decide(Planned(state.now))
            return
        planned = state.news and state.now >= state.planned_at + self._interval_s
        if planned:
            state.news = False
            self._plan_anew()
        state.vacated = False
        if self._repack:
            move_to(state, self._target, self._decide)
        elif self.policy.preempts and not planned:
            self._drain()
            if self.keyed and state.resources.idle.exhausted() and self.order.all_want_whole_gpus():
                return
            go_on(self._walk, self.order if self.keyed and state.news else None)

    def _plan_anew(self) -> None:
        """A new target, or new asks; until the next, what is vacated goes to these."""
        state = self.state
        self._drain()
        view = ClusterView(state, self.order, self.placement, self.memo)
        if self._replanner is None:
            cursor = view.cursor()
            self._target = repack(state, solo(cursor), self.placement, cursor.fail)
        elif not self.policy.preempts:
            start_asks(self._walk, self.order, self._replanner.rank(view))
        elif self._repack:
            wanted = as_wanted(state, self._replanner.rank(view))
            self._target = repack(state, wanted, self.placement, lambda _: None)
        elif state.waiting or state.active:
            asks = list(self._replanner.rank(view))
            pending = walk_asks(self._walk, asks, self.protection)
            self._decide(Planned(state.now, tuple(pending)))

    def in_order(self) -> Iterator[JobState]:
        """Those that wait, best first; first come first where the policy has no key. To be read between two steps."""
        if not self.keyed:
            return iter(sorted(self.state.waiting.values(), key=lambda job: job.seq))
        self._drain()
        return self.order.best_first()

    def impossible(self, job: JobState) -> bool:
        """Whether the nodes there are could not hold it even if they were empty: it holds up nobody."""
        return self._reach.impossible(job.shape, self.placement)

    def plan_at_once(self) -> None:
        """Where it plans at intervals: with the next event, however long ago the last plan was."""
        self.state.planned_at = float("-inf")

    def next_plan_at(self) -> Seconds | None:
        """When it plans next, where it waits for that. While nothing may be started, it waits for something else."""
        state = self.state
        if not self._interval_s or not state.news or state.paused or state.planned_at == float("-inf"):
            return None
        return state.planned_at + self._interval_s

    def _set_alarm(self) -> None:
        """One alarm: when the next key steps, the next plan is due, or the next job may be tried again."""
        due: Seconds | None = None
        if self._steps:
            self._drain()
            due = self.order.next_step()
        if (plan_at := self.next_plan_at()) is not None:
            due = plan_at
        if self.protection is not UNPROTECTED and self.state.waiting:
            ends = self.order.next_unprotected()
            due = _sooner(due, ends)
        due = _sooner(due, self.state.eligibility.next_opening())
        if due != self.alarm:
            self.alarm = due
            self._decide(Alarm(self.state.now, due))


def _sooner(one: Seconds | None, other: Seconds | None) -> Seconds | None:
    return one if other is None or (one is not None and one <= other) else other
