"""The real scheduler, run forward from a present state: what it decides if each job takes a given time.

The costs are those of the simulator. No node fails and no run crashes, and only given jobs arrive. A replica that
starts is ready at once and does not end; services keep the number of replicas that they want now. A stop takes no time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from weft.model import (
    Decision,
    DrainReplica,
    Event,
    Exited,
    Fact,
    JobId,
    Ready,
    ReplicaDrained,
    Seconds,
    Start,
    Started,
    Stop,
)
from weft.model.status import ENDED
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates, pacing
from weft.sim.costs.real import CHECKPOINT_INTERVAL_S, RealCosts
from weft.sim.costs.speed import Speed
from weft.sim.engine import NEVER, Engine
from weft.sim.faults.estimates import Estimates
from weft.sim.faults.failures import Crashes, Faults
from weft.sim.forecast.remaining import FOREVER_S
from weft.sim.traces.profiles import UNMEASURED
from weft.sim.traces.trace import TraceJob

HORIZON_S: Final = FOREVER_S / 1000
"""Events later than this count as never."""
FUTILE_INSTANTS: Final = 5000
"""Instants without the end of a job after which the rest counts as never."""


@dataclass(frozen=True)
class Costs:
    """The costs of runs in a forecast. Learned durations contain the slowdown of spread gangs already."""

    across_nodes: float = 1.0
    across_switches: float = 1.0
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S


MEASURED: Final = Costs()


@dataclass(frozen=True)
class Course:
    """The course of events: when jobs first started and when they ended, and the facts if they were asked for."""

    starts: dict[JobId, Seconds] = field(default_factory=dict)
    ends: dict[JobId, Seconds] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)


def run_forward(
    scheduler: Scheduler,
    work_s: Mapping[JobId, float],
    now: Seconds,
    *,
    changes: Sequence[Event] = (),
    arrivals: Sequence[TraceJob] = (),
    all_arrive: bool = False,
    costs: Costs = MEASURED,
    until_started: Collection[JobId] | None = None,
    keep_facts: bool = False,
) -> Course:
    """Let the scheduler decide from now on, until all present jobs have ended or nothing more happens.

    `work_s`: the work left of each unfinished job. `changes` happen first, then `arrivals` as they come, until all
    present jobs have started; `all_arrive`: also later.
    `until_started`: end once these jobs have started. The scheduler's state changes: use a copy of the process
    (`branches`)."""
    engine = ForwardEngine(scheduler, work_s, now, changes, arrivals, costs)
    course, until = Course(), now + HORIZON_S
    starts, ends, execute = course.starts, course.ends, engine.execute
    pending, futile = None, 0
    for events in engine.instants():
        if events and events[-1].at > until:
            break
        futile += 1
        decisions = scheduler.step(*events) if events else []
        pending = pending or _Pending(scheduler, work_s, until_started)
        for event in events:
            if type(event) is Exited:
                futile = 0
                if event.how == "done":
                    ends[event.job] = event.at
                    pending.unended.discard(event.job)
        for decision in decisions:
            if type(decision) is Start:
                starts.setdefault(decision.job, decision.at)
                pending.unstarted.discard(decision.job)
            execute(decision)
        if keep_facts:
            course.facts.extend((*events, *decisions))
        if not pending.unstarted and not all_arrive:
            engine.end_arrivals()
        if futile > FUTILE_INSTANTS or not (pending.unstarted if until_started is not None else pending.unended):
            break
    return course


class _Pending:
    """The present jobs that can start and have not, and those that can end and have not, as of the first instant."""

    def __init__(
        self, scheduler: Scheduler, work_s: Mapping[JobId, float], until_started: Collection[JobId] | None
    ) -> None:
        jobs = [job for name in work_s if (job := scheduler.state.jobs.get(name)) is not None]
        self.unended = {job.id for job in jobs if job.status not in ENDED and work_s[job.id] < FOREVER_S}
        self.unstarted = set(until_started or ())
        if until_started is None:
            waiting = (job for job in jobs if job.status in ("waiting", "blocked"))
            self.unstarted = {job.id for job in waiting if not scheduler.impossible(job)}


class ForwardEngine(Engine):
    """The simulated backend from a present state on."""

    def __init__(
        self,
        scheduler: Scheduler,
        work_s: Mapping[JobId, float],
        now: Seconds,
        changes: Sequence[Event] = (),
        arrivals: Sequence[TraceJob] = (),
        costs: Costs = MEASURED,
    ) -> None:
        self._state, self._now = scheduler.state, max(now, scheduler.state.now)
        speed = _speed(scheduler, costs)
        jobs = {job.id: _traced(self._state, job, work_s) for job in _unfinished(self._state)}
        beliefs = Beliefs({job.id for job in _unfinished(self._state) if job.remaining_s is not None})
        jobs |= {each.job.id: each for each in arrivals}
        self._real = RealCosts(jobs, speed, costs.checkpoint_interval_s, beliefs, Crashes(0, 0.0))
        super().__init__((), arrivals, self._real, beliefs, Faults())
        if scheduler.alarm is not None:
            self._alarm = max(scheduler.alarm, self._now)
        first = list(self._resume(jobs))
        self._first = [*first, *changes]

    def execute(self, decision: Decision) -> None:
        job = self._state.jobs[decision.job] if isinstance(decision, Start | Stop | DrainReplica) else None
        if job is None or job.job.replica is None:
            super().execute(decision)
        elif isinstance(decision, Start):
            self._at_once += self._real.host(job.job, decision)
            self._at_once += (Started(decision.at, job.id, decision.run), Ready(decision.at, job.id, decision.run))
        elif isinstance(decision, Stop):
            self._at_once += self._real.unhost(job.id, decision.at)
            self._at_once.append(Exited(decision.at, job.id, decision.run, "stopped"))
        else:
            self._at_once.append(ReplicaDrained(decision.at, job.id, job.run))

    def end_arrivals(self) -> None:
        """Let no more jobs arrive."""
        self._arrival, self._jobs = NEVER, ()

    def _opening(self) -> tuple[Seconds, list[Event]]:
        return self._now, self._first

    def _resume(self, jobs: Mapping[JobId, TraceJob]) -> Iterator[Event]:
        """Continue the present runs; yield what happens to them at once."""
        now, starting = self._now, list[tuple[Start, TraceJob]]()
        for job in self._state.active.values():
            start = Start(job.started_at, job.id, job.run, job.slots, job.share, job.weave)
            if job.releasing:
                yield Exited(now, job.id, job.run, "stopped")
            elif job.job.replica is not None:
                self._real.host(job.job, start)
                yield from _get_ready(job, now)
            elif job.status == "starting":
                starting.append((start, jobs[job.id]))
            else:
                self._real.resume(start, jobs[job.id].work_s, _done_s(job, now))
        self._real.resume_all(now)
        for start, traced in starting:  # a run slows others down once it works
            start_s = traced.job.profile.start_s if traced.job.profile is not None else 0.0
            self._real.resume(start, traced.work_s, 0.0, max(now, start.at + start_s))


class Beliefs(Estimates):
    """Tells the scheduler of a stopped run what is left of the jobs that declare or report their duration."""

    def __init__(self, known: Collection[JobId]) -> None:
        self._known = known

    def remaining_s(self, job: JobId, done_s: float, left_s: float) -> float | None:  # noqa: ARG002
        return left_s if job in self._known else None


def _unfinished(state: State) -> Iterator[JobState]:
    """Yield the jobs that have not ended, replicas included."""
    if len(state.ended) * 4 < len(state.jobs):
        yield from (job for job in state.jobs.values() if job.id not in state.ended)
        return
    yield from state.active.values()
    yield from state.waiting.values()
    yield from state.services.waiting.values()
    known = len(state.active) + len(state.waiting) + len(state.services.waiting) + len(state.ended)
    if known < len(state.jobs):
        yield from (job for job in state.jobs.values() if job.status in ("blocked", "held"))


def unfinished_jobs(state: State) -> list[JobState]:
    """Return the jobs that have not ended, without replicas, in the order of their submission."""
    return sorted((job for job in _unfinished(state) if job.job.replica is None), key=lambda job: job.seq)


def _traced(state: State, job: JobState, work_s: Mapping[JobId, float]) -> TraceJob:
    profile = state.profiles.of(job.job)
    if profile is None and job.weave:
        profile = UNMEASURED
    made = job.job if profile is job.job.profile else replace(job.job, profile=profile)
    return TraceJob(job.submitted_at, made, work_s.get(job.id, FOREVER_S))


def _speed(scheduler: Scheduler, costs: Costs) -> Speed:
    state, policy = scheduler.state, scheduler.policy
    switches = {host.node.id: host.node.switch for host in state.resources.nodes}
    known: Pace | Rates | None = getattr(policy, "pace", None)
    pace = pacing("fair", "none", ordering="best", matched=True) if known is None else known
    sharing = policy.oversubscription > 1 or bool(state.services.by_name)
    return Speed(switches, pace, sharing, costs.across_nodes, costs.across_switches)


def _done_s(job: JobState, now: Seconds) -> float:
    """Return the work that the present run has done, as far as it is known."""
    return job.rate * (now - job.rate_since) if job.rate and job.rate_since >= job.started_at else 0.0


def _get_ready(replica: JobState, now: Seconds) -> Iterator[Event]:
    if replica.status == "starting":
        yield Started(now, replica.id, replica.run)
    if replica.ready_at is None:
        yield Ready(now, replica.id, replica.run)
    if replica.draining_since is not None and not replica.drained:
        yield ReplicaDrained(now, replica.id, replica.run)
