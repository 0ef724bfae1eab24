"""The engine of the simulator: turns a trace and decisions into events, one instant at a time.

The order within an instant: runs that finish, crash or begin to work; nodes that fail or return; jobs that arrive; the
alarm. Events that result from decisions at the same instant follow in further lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from weft.errors import InputError, PlanError
from weft.model import (
    Alarm,
    Decision,
    Event,
    Exited,
    JobId,
    Node,
    NodeId,
    NodeJoined,
    NodeLost,
    Rewoven,
    Seconds,
    Start,
    Stop,
    Submitted,
    Team,
    TeamSet,
    Wake,
)
from weft.sim.faults.estimates import Estimates
from weft.sim.faults.failures import Faults
from weft.sim.traces.trace import TraceJob

NEVER = float("inf")
STEPS_PER_INSTANT = 1000
"""Limit of steps at one instant. A policy that exceeds it stops and starts the same jobs forever."""
FUTILE_FAULTS = 50_000
"""Limit of failures and repairs without a job ending. Beyond it, no job will ever end."""


class Costs(Protocol):
    """A cost model: the events that starting, stopping and running cause."""

    near_arrival: bool
    """True if an ending close to an arrival is one event with it, as `coincides` says."""

    def start(self, start: Start) -> Sequence[Event]: ...
    def stop(self, stop: Stop) -> Sequence[Event]: ...
    def reweave(self, rewoven: Rewoven) -> Sequence[Event]: ...
    def lose(self, node: NodeId, now: Seconds) -> list[Event]:
        """Remove a node that fails. Return the events that precede its loss."""

    def next_time(self) -> Seconds:
        """Return when the next run begins to work, finishes or crashes."""

    def coincides(self, ending: Seconds, arrival: Seconds) -> bool: ...
    def happen(self, now: Seconds) -> list[Event]:
        """Return the events of runs at this instant."""

    def settle(self, now: Seconds) -> None:
        """Finish the instant; called after all its decisions."""


class Engine:
    """The simulated backend: yields events and executes decisions."""

    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Sequence[TraceJob],
        costs: Costs,
        estimates: Estimates,
        faults: Faults,
        teams: Sequence[Team] = (),
    ) -> None:
        self._teams = teams
        self._nodes, self._jobs, self._costs = nodes, jobs, costs
        self._estimates, self._faults = estimates, faults
        self._arrived = 0
        self._arrival: Seconds = jobs[0].submit_s if jobs else NEVER
        self._fault: Seconds = faults.next_time()
        self._alarm: Seconds = NEVER
        self._at_once: list[Event] = []
        self._failures: dict[JobId, int] = {}
        self._retries = {each.job.id: each.job.retries for each in jobs}
        self._ended = self._futile = 0
        self._observes = type(estimates).observe is not Estimates.observe
        self._near_arrival = costs.near_arrival

    def instants(self) -> Iterator[list[Event]]:
        """Yield the events of each instant; those that result from decisions at the same instant in further lists."""
        now, events = self._opening()
        yield events
        settle, observes = self._costs.settle, self._observes
        while True:
            if self._at_once:
                yield from self._follow_up(now)
            settle(now)
            now = self._next()
            if now == NEVER:
                return
            events = self._happen(now)
            if events:
                now = events[0].at
            if observes:
                self._estimates.observe(events)
            yield events

    def _opening(self) -> tuple[Seconds, list[Event]]:
        """Return the first instant and its events."""
        joined = (NodeJoined(0.0, node) for node in self._nodes)
        return 0.0, [*joined, *(TeamSet(0.0, team) for team in self._teams)]

    def execute(self, decision: Decision) -> None:
        kind = type(decision)
        if kind is Start:
            self._at_once += self._costs.start(decision)  # type: ignore[arg-type]
        elif kind is Stop:
            self._at_once += self._costs.stop(decision)  # type: ignore[arg-type]
        elif kind is Rewoven:
            self._at_once += self._costs.reweave(decision)  # type: ignore[arg-type]
        elif kind is Alarm:
            due = decision.due  # type: ignore[union-attr]
            self._alarm = NEVER if due is None else due

    def _follow_up(self, now: Seconds) -> Iterator[list[Event]]:
        steps = 0
        while self._at_once:
            events, self._at_once = self._at_once, []
            if self._observes:
                self._estimates.observe(events)
            yield events
            steps += 1
            if steps > STEPS_PER_INSTANT:
                raise PlanError(f"{steps} steps at {now} s without an end: the policy stops and starts the same jobs")

    def _next(self) -> Seconds:
        due = self._costs.next_time()
        if self._arrival < due:
            due = self._arrival
        if self._alarm < due:
            due = self._alarm
        fault = self._fault
        if fault < due and (due < NEVER or self._ended < len(self._jobs)):
            return fault
        return due

    def _happen(self, now: Seconds) -> list[Event]:
        if self._near_arrival and self._costs.coincides(now, self._arrival):
            now = self._arrival
        events = self._costs.happen(now)
        if self._fault < NEVER:
            self._count_ends(events)
            events += self._fail(now)
        while self._arrival == now:
            events.append(Submitted(now, self._estimates.declare(self._jobs[self._arrived].job)))
            self._arrived = arrived = self._arrived + 1
            self._arrival = self._jobs[arrived].submit_s if arrived < len(self._jobs) else NEVER
        if self._alarm <= now:
            self._alarm = NEVER
            events.append(Wake(now))
        return events

    def _fail(self, now: Seconds) -> list[Event]:
        """Return the events of nodes that fail or return now."""
        if self._fault > now:
            return []
        events: list[Event] = []
        for fault in self._faults.happen(now):
            if isinstance(fault, NodeLost):
                events += self._costs.lose(fault.node, now)
            events.append(fault)
        self._fault = self._faults.next_time()
        self._futile += 1
        if self._futile > FUTILE_FAULTS:
            hint = "choose a longer time between failures (mtbf), or a shorter checkpoint interval"
            raise InputError(f"{FUTILE_FAULTS:,} failures and repairs by {now:.0f} s without a job ending", hint=hint)
        return events

    def _count_ends(self, events: list[Event]) -> None:
        """Count the jobs that have ended: after the last one, nodes need not fail any more."""
        for event in events:
            if type(event) is Exited:
                failures = self._failures[event.job] = self._failures.get(event.job, 0) + (event.how == "failed")
                if event.how == "done" or failures > self._retries[event.job]:
                    self._ended += 1
                    self._futile = 0
