"""The scheduler: events in, decisions out. The same object drives the simulator, one machine and a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from weft.errors import AskError, PlanError, UnknownName
from weft.model import (
    Alarm,
    Decision,
    Event,
    Fact,
    KeyChanged,
    NodeId,
    Resized,
    Seconds,
    Start,
    Stop,
    StopReason,
    Submitted,
)
from weft.scheduling.core.admission import check_job
from weft.scheduling.core.blame import blame
from weft.scheduling.core.planning.allocator import Allocator
from weft.scheduling.core.planning.choice import planner_of
from weft.scheduling.core.planning.planner import Context, wakes
from weft.scheduling.core.planning.preemption_cache import PreemptionCache
from weft.scheduling.core.ports import Placement, Policy, Replanner
from weft.scheduling.core.queue.order import ROUNDING_S, order_of
from weft.scheduling.core.queue.protection import UNPROTECTED, Protection
from weft.scheduling.core.services.planner import ServicePlanner
from weft.scheduling.core.services.replicas import rollback_of
from weft.scheduling.core.state.eligibility import NEVER
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.core.teams.context import TeamContext


class Scheduler:
    """The scheduler. `step(*events)` takes all events of one instant and returns the decisions.

    With `repack`, every plan places all jobs on an emptied copy of the cluster, as Muri's simulator does; without it,
    runs stay where they are unless a better job needs their GPUs. `resort` sorts all jobs again at each step.
    `protection` says which runs are not preempted. `interval_s` is the least time between two plans.
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
        self.policy, self.placement, self.protection = policy, placement, protection
        self.state = State(policy.oversubscription)
        kind = planner_of(policy, repack=repack)
        victims = kind.preempts_by_key and not kind.replaces_order
        self.order = order_of(policy, victims=victims, ends=kind.reserves, protection=protection, resort=resort)
        self.memo = self.order.memo = policy.memo()
        if interval_s is None:
            interval_s = policy.interval_s if isinstance(policy, Replanner) else 0.0
        allocator = Allocator(self.state, placement, self._decide)
        self._cache = PreemptionCache(self.state, self.order, fills_nodes=placement.fills_nodes)
        context = Context(
            self.state, self.order, policy, placement, protection, allocator, self._cache, interval_s, self._decide,
            restarts_all=kind.replaces_order,
        )  # fmt: skip
        self.planner, self._services = kind(context), ServicePlanner(context)
        self._plain, self._teams_seen = context, 0
        self.teams: TeamContext | None = None
        """The layer of teams; None: there are none."""
        self._observes = type(policy).observe is not Policy.observe
        self._keeps_order = not kind.replaces_order
        self._fold = self.state.apply if self._keeps_order and not self._observes else self.fold
        self._steps = self.order.steps and not self.order.remembers
        self._epoch = policy.epoch(self.memo)
        self._interval_s = interval_s
        self._keys_change = self._steps or self.order.remembers or protection is not UNPROTECTED
        self._wakes = wakes(policy)
        self._needs_alarm = self._steps or bool(interval_s) or protection is not UNPROTECTED or self._wakes
        self.alarm: Seconds | None = None
        """When the scheduler needs a `Wake`."""
        self._decisions: list[Decision] = []

    def step(self, *events: Event) -> list[Decision]:
        """Take all events of one instant; return the decisions, already applied to the state."""
        self._decisions = []
        fold = self._fold
        for event in events:
            if type(event) is Submitted:
                check_job(event.job)
        for event in events:
            fold(event)
        return self._plan()

    def _plan(self) -> list[Decision]:
        """Plan after the events and decisions so far of this instant; return all decisions."""
        state = self.state
        if state.timed:
            state.resources.advance(state.now)
        if state.orphans:
            self._stop_orphans()
        if self._keys_change:
            self._update_keys()
        services = state.services
        if services.by_name:
            self._services.settle()
            if state.orphans:
                self._stop_orphans()
        if (state.news or state.vacated) and not state.paused:
            if self._teams_seen != state.teams.version:
                self._choose_layer()
            teams = self.teams
            if teams is not None:
                teams.begin()
            serves = teams is not None and self._keeps_order
            if services.by_name or self._services.keeps_gpus:
                self._services.place(guaranteed=serves)
            if teams is not None and serves:
                teams.serve_guarantees()
                if services.waiting:
                    self._services.place_others()
                    teams.share_again()
            if not self._keeps_order:
                self.planner.settle_ties()
            try:
                self.planner.step()
            except AskError as error:
                raise PlanError(blame(self.policy, str(error), "rank")) from None
            self._services.moves.due = True
        if services.by_name:
            self._services.moves.step()
        if (
            self._needs_alarm
            or services.by_name
            or state.eligibility.opens_at != NEVER
            or self.alarm is not None
            or self.teams is not None
        ):
            self._set_alarm()
        return self._decisions

    def layer(self) -> TeamContext | None:
        """Return the layer of teams with the standing of now; None: there are no teams. Call it between two steps."""
        if self._teams_seen != self.state.teams.version:
            self._choose_layer()
        if self.teams is not None:
            self.teams.begin()
        return self.teams

    def _choose_layer(self) -> None:
        """Let the planners keep to the teams from now on, or to none if there are none."""
        self._teams_seen = self.state.teams.version
        plain = self._plain
        plain.allocator.decide = plain.decide
        self.teams = TeamContext(plain) if self.state.teams.by_name else None
        context = plain if self.teams is None else self.teams
        self.planner.use(context)
        self._services.use(context)

    def resize(
        self, at: Seconds, service: str, replicas: int, why: str = "", inputs: tuple[tuple[str, float], ...] = ()
    ) -> list[Decision]:
        """Decide how many replicas a service is to have, within its bounds; return this and all further decisions."""
        known = self.state.services.by_name.get(service)
        if known is None:
            raise UnknownName("service", service, list(self.state.services.by_name))
        scale = known.service.scale
        replicas = min(max(replicas, scale.min_replicas), scale.max_replicas)
        self._decisions = []
        if replicas == known.wanted or known.undeployed:
            return self._decisions
        self._decide(Resized(at, service, replicas, why, inputs))
        return self._plan()

    def roll_back(self, at: Seconds, service: str, version: int, errors: str) -> list[Decision]:
        """Go back to the last good version of a service, for the errors of this one; return all decisions."""
        known, self._decisions = self.state.services.by_name.get(service), []
        if known is None or known.service.version != version or (back := rollback_of(known, at, errors)) is None:
            return self._decisions
        self._decide(back)
        return self._plan()

    def adopt(self, start: Start) -> list[Decision]:
        """Decide a start that has happened already, as a node says; return this and all further decisions. Return none
        if the job does not wait, or its GPUs are not free."""
        job = self.state.jobs.get(start.job)
        self._decisions = []
        gpus: dict[NodeId, list[int]] = {}
        for node, each in start.slots:
            gpus.setdefault(node, []).extend(each)
        hosts, request = self.state.resources.by_id, max(start.share.request, 0.0)
        is_free = all(node in hosts and hosts[node].has_free(each, request) for node, each in gpus.items())
        if job is None or not job.waits or start.run <= job.run or not is_free:
            return []
        self._decide(start)
        return self._plan()

    def replay(self, facts: Iterable[Fact], *, more: bool = False) -> None:
        """Replay a journal: its decisions are history, and the scheduler makes no new ones. `more`: these facts are
        only a part of it.

        A crash may have cut off the last decisions. The driver continues with a `Wake`, which plans again.
        """
        for fact in facts:
            self.fold(fact)
            if type(fact) is Alarm:
                self.alarm = fact.due
        if self._wakes:
            self.planner.restore_wake(self.alarm)
        self.state.news = self._interval_s > 0 and self.alarm is not None
        self.state.vacated = False
        if not self._keeps_order:
            self.planner.settle_ties()
        if not more or not self.order.remembers:  # keys that depend on memory are not known before the end
            self.order.drain(self.state)

    def fold(self, fact: Fact) -> bool:
        """Apply one fact to the state and to the policy's memory; return False if it was stale and dropped."""
        if not self._keeps_order and fact.at > self.state.now:
            self.planner.settle_ties()
        applied = self.state.apply(fact)
        if applied and self._observes:
            self.memo = self.order.memo = self.policy.observe(self.memo, fact)
        return applied

    def _decide(self, decision: Decision) -> None:
        if not self._fold(decision):
            raise PlanError(blame(self.policy, f"led to an impossible decision: {decision}", "rank", "key"))
        self._decisions.append(decision)
        if self._keeps_order:
            self.order.drain(self.state)

    def _stop_orphans(self) -> None:
        """Stop runs that must end whatever the policy says."""
        for job in list(self.state.orphans.values()):
            if job.active and not job.releasing:
                evicted: StopReason = "moved" if job.job.replica is None else "unready"
                why: StopReason = "cancelled" if job.cancelling else "node-lost" if job.lost else evicted
                self._decide(Stop(self.state.now, job.id, job.run, why))
        self.state.orphans.clear()

    def _update_keys(self) -> None:
        if self._steps:
            self._step_keys()
        elif self.order.remembers:
            self._refresh_keys()
        if self.protection is not UNPROTECTED:
            self._unprotect()

    def _step_keys(self) -> None:
        """Decide the new keys of jobs whose keys stepped; jobs that already wait at the new key go first."""
        now, exact = self.state.now, not self._keeps_order
        for job in self._runs_by_seq() if exact else self.order.stepping(now):
            # Muri's simulator checks every run at every event: by rounding, a key may step a moment after it was due
            is_early = exact and (due := self.policy.until(job, now)) is not None and due > now
            key = self.policy.key(job, now if is_early else now + ROUNDING_S)
            if key != (0.0 if job.key is None else job.key):
                self._decide(KeyChanged(now, job.id, key))

    def _runs_by_seq(self) -> list[JobState]:
        runs = (job for job in self.state.active.values() if not job.releasing and job.job.replica is None)
        return sorted(runs, key=lambda job: job.seq)

    def _refresh_keys(self) -> None:
        """Update keys that depend on memory: the ones that are due, or all after a change of epoch."""
        state, epoch = self.state, self.policy.epoch(self.memo)
        runs = self.order.stepping(state.now)
        if epoch != self._epoch:
            self._epoch, runs = epoch, list(state.active.values())
            state.touched.update(state.waiting)
        for job in runs:
            state.touched[job.id] = job
            state.resources.touch(job.slots)

    def _unprotect(self) -> None:
        """Let runs be preempted once they have lasted long enough."""
        for job in self.order.unprotected(self.state.now):
            self.state.touched[job.id] = job
            self.state.resources.touch(job.slots)

    def in_order(self) -> Iterator[JobState]:
        """Return the waiting jobs, best first; without a key, first come first. Call it between two steps."""
        self.order.drain(self.state)
        return self.order.best_first()

    def allowed_in_order(self) -> Iterator[JobState]:
        """Return the waiting replicas, then the waiting jobs, best first, without those beyond the maximum of their
        team: more GPUs would not help them. Call it between two steps."""
        replicas, layer = self.state.services.waiting.values(), self.layer()
        return chain(replicas, self.in_order()) if layer is None else layer.within_maximum(replicas)

    def impossible(self, job: JobState) -> bool:
        """Return whether the living nodes could not hold the job even if empty. Such a job blocks no other."""
        return self._cache.impossible(job.shape, self.placement)

    def check_keys(self) -> None:
        """Raise a `PlanError` if the key of a waiting job changed while it waited. Call it between two steps."""
        if self.order.remembers and self.policy.epoch(self.memo) != self._epoch:
            return  # the next step asks for all keys again
        for job, known, key in self.order.drifted(self.state):
            waits = f"job {job.id} has waited since {job.waiting_since:g} s with the key {known:g}"
            what = f"has a key that changes while a job waits: {waits}, and at {self.state.now:g} s its key is {key:g}"
            raise PlanError(blame(self.policy, what, "key_from" if self.order.remembers else "key"))

    def plan_at_once(self) -> None:
        """Plan with the next event, however recent the last plan was."""
        self.state.planned_at = float("-inf")

    def next_plan_at(self) -> Seconds | None:
        """Return when the next plan is due, if a plan waits for its interval; a paused scheduler plans nothing."""
        return self.planner.next_plan_at()

    def _set_alarm(self) -> None:
        """Set one alarm: for the next key step, the next plan, or the next job that becomes eligible."""
        due: Seconds | None = None
        if self._steps and self._keeps_order:
            self.order.drain(self.state)
            due = self.order.next_step()
        elif self._steps:
            steps = (self.policy.until(job, self.state.now) for job in self._runs_by_seq())
            due = min((step for step in steps if step is not None), default=None)
        if self._interval_s and (plan_at := self.next_plan_at()) is not None:
            due = plan_at
        if self._wakes and not self.state.paused:
            due = _sooner(due, self.planner.next_wake())
        if self.protection is not UNPROTECTED and self.state.waiting:
            ends = self.order.next_unprotected()
            due = _sooner(due, ends)
        if self.state.services.by_name:
            due = _sooner(due, self._services.next_wake())
        if self.state.eligibility.opens_at != NEVER:
            due = _sooner(due, self.state.eligibility.next_opening())
        if self.teams is not None:
            due = _sooner(due, self.teams.next_wake())
        if due != self.alarm:
            self.alarm = due
            self._decide(Alarm(self.state.now, due))


def _sooner(one: Seconds | None, other: Seconds | None) -> Seconds | None:
    return one if other is None or (one is not None and one <= other) else other
