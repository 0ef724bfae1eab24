"""The simulator: the engine that makes events of a trace and of decisions, an instant at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from weft.errors import PlanError
from weft.model import Alarm, Decision, Event, Node, NodeJoined, Seconds, Start, Stop, Submitted, Wake
from weft.sim.trace import TraceJob

STEPS_PER_INSTANT = 1000
"""More than this without the clock moving is a policy that cannot make up its mind."""


class Costs(Protocol):
    """What starting, stopping and running cost."""

    def start(self, start: Start) -> list[Event]: ...
    def stop(self, stop: Stop) -> list[Event]: ...
    def next_time(self) -> Seconds:
        """When something happens next by itself."""

    def coincides(self, ending: Seconds, arrival: Seconds) -> bool: ...
    def happen(self, now: Seconds) -> list[Event]:
        """What happens by itself at this instant."""

    def settle(self, now: Seconds) -> None:
        """All decisions of this instant are made."""


class Engine:
    def __init__(self, nodes: Sequence[Node], jobs: Sequence[TraceJob], costs: Costs) -> None:
        self._nodes, self._jobs, self._costs = nodes, jobs, costs
        self._arrived = 0
        self._arrival: Seconds = jobs[0].submit_s if jobs else float("inf")
        self._alarm: Seconds = float("inf")
        self._at_once: list[Event] = []

    @property
    def arrived(self) -> int:
        """How many jobs of the trace have been submitted."""
        return self._arrived

    def instants(self) -> Iterator[list[Event]]:
        """The events of each instant; those that follow from decisions at the same instant come as further lists."""
        now = 0.0
        yield [NodeJoined(now, node) for node in self._nodes]
        while True:
            yield from self._follow_up(now)
            self._costs.settle(now)
            now = self._next()
            if now == float("inf"):
                return
            events = self._happen(now)
            now = events[0].at
            yield events

    def execute(self, decision: Decision) -> None:
        kind = type(decision)
        if kind is Start:
            self._at_once += self._costs.start(decision)  # type: ignore[arg-type]
        elif kind is Stop:
            self._at_once += self._costs.stop(decision)  # type: ignore[arg-type]
        elif kind is Alarm:
            due = decision.due  # type: ignore[union-attr]
            self._alarm = float("inf") if due is None else due

    def _follow_up(self, now: Seconds) -> Iterator[list[Event]]:
        steps = 0
        while self._at_once:
            events, self._at_once = self._at_once, []
            yield events
            steps += 1
            if steps > STEPS_PER_INSTANT:
                raise PlanError(f"{steps} steps at {now} s without end: the policy stops and starts the same jobs")

    def _next(self) -> Seconds:
        return min(self._arrival, self._costs.next_time(), self._alarm)

    def _happen(self, now: Seconds) -> list[Event]:
        """What ends or begins by itself at this instant, then who arrives."""
        if self._arrival != now and self._costs.coincides(now, self._arrival):
            now = self._arrival
        events = self._costs.happen(now)
        while self._arrival == now:
            events.append(Submitted(now, self._jobs[self._arrived].job))
            self._arrived += 1
            more = self._arrived < len(self._jobs)
            self._arrival = self._jobs[self._arrived].submit_s if more else float("inf")
        if self._alarm <= now:
            self._alarm = float("inf")
            events.append(Wake(now))
        return events
