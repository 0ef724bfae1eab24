"""Autoscaling of live services (pure): reports of routers go in, the wanted numbers of replicas come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from weft.access.wire.messages import LoadReport, ServiceLoad
from weft.model import Seconds
from weft.scheduling.core.state.services import MAX_REVISIONS, ServiceState
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.capacity import LearnedCapacity
from weft.scheduling.scaling.port import Autoscaler, Load, Resize, ScaleBounds, ScaleState, decide
from weft.server.services.error_gate import Answers, judge
from weft.views.from_state.measured import NO_LOAD, MeasuredLoad

ROUTER_TIMEOUT_S: Final = 5.0
"""A router that reports nothing for this long does not count any more."""
BUSY_S: Final = 3.0
"""A service has traffic if it had a request within this time. Routers report each second."""
MIN_RATE_S: Final = 0.5
FULL_PART: Final = 0.95
"""The part of the time in which requests wait while a service is saturated."""


@dataclass
class _Counters:
    """The last report of one router about one service."""

    arrivals: int = 0
    answered: int = 0
    in_flight: int = 0
    queued: int = 0
    at: Seconds = 0.0
    waiting_s: float = 0.0
    rate: float = 0.0
    """Answers per second since the report before."""
    full: bool = False
    """True if requests waited all the time since the report before."""
    versions: dict[int, Answers] = field(default_factory=dict)
    """The answers of each version since the router started."""


@dataclass
class _Scaling:
    """The autoscaler of one service, and the requests since its last decision."""

    known: ServiceState
    scaler_name: str
    scaler: Autoscaler
    state: ScaleState
    capacity: LearnedCapacity = field(default_factory=LearnedCapacity)
    routers: dict[str, _Counters] = field(default_factory=dict)
    arrivals: int = 0
    decided_at: Seconds | None = None
    figures: MeasuredLoad = NO_LOAD
    answers: dict[int, Answers] = field(default_factory=dict)
    """The answers of the last versions that had some."""
    busy_at: Seconds = -inf
    """When a report last had new requests."""

    def count(self, load: ServiceLoad, before: _Counters) -> dict[int, Answers]:
        """Count the answers of each version since the report before. Return the present counters."""
        counters = {}
        for each in load.versions:
            now = counters[each.version] = Answers(each.answered, each.errors)
            total = self.answers.get(each.version, Answers())
            self.answers[each.version] = total.plus(now, before.versions.get(each.version, Answers()))
        self.answers = {version: self.answers[version] for version in sorted(self.answers)[-MAX_REVISIONS:]}
        return counters

    def learn(self, ready: int) -> None:
        """Learn the capacity of a replica from a time in which requests waited at all routers that had some."""
        busy = [each for each in self.routers.values() if each.rate or each.full]
        rate, full = sum(each.rate for each in busy), all(each.full for each in busy)
        self.capacity = self.capacity.learn(rate, ready, saturated=full)


class Autoscaling:
    """The autoscalers of all services."""

    def __init__(self) -> None:
        self._services: dict[str, _Scaling] = {}

    def figures(self, service: str) -> MeasuredLoad:
        found = self._services.get(service)
        return NO_LOAD if found is None else found.figures

    def is_served(self, service: str) -> bool:
        """Return whether a router has the service in its table: it reports the load of each."""
        found = self._services.get(service)
        return found is not None and bool(found.routers)

    def judge(self, known: ServiceState, now: Seconds) -> tuple[bool, str]:
        """Return whether the error gate waits for answers of the present version, and why that must go back."""
        found = self._of(known)
        watches, why = judge(known, found.answers, now)
        return watches and now - found.busy_at <= BUSY_S, why

    def receive(self, router: str, report: LoadReport, state: State, now: Seconds) -> list[Resize]:
        """Count the requests of a report. Return a first replica for each service without one for which some wait."""
        urgent: list[Resize] = []
        for load in report.services:
            service = state.services.by_name.get(load.service)
            if service is None:
                continue
            found = self._of(service)
            before = found.routers.get(router)
            if before is None:  # it may have counted for an earlier scheduler
                before = _Counters(load.arrivals, load.answered, at=now, waiting_s=load.waiting_s)
            elif load.arrivals < before.arrivals or load.answered < before.answered:
                before = _Counters()  # it has begun again
            found.arrivals += load.arrivals - before.arrivals
            if load.arrivals > before.arrivals:
                found.busy_at = now
            found.routers[router] = _next_counters(before, load, now, found.count(load, before))
            found.learn(len(service.ready()))
            if load.queued and not service.staying() and not service.undeployed:
                urgent.append(Resize(load.service, 1, "a request waits", (("queued", float(load.queued)),)))
        return urgent

    def decide(self, state: State, now: Seconds) -> list[Resize]:
        """Return the number of replicas that each autoscaler wants."""
        known = state.services.by_name
        for name in [name for name in self._services if name not in known]:
            del self._services[name]
        return [self._decide(each, now) for each in known.values() if not each.undeployed]

    def _of(self, known: ServiceState) -> _Scaling:
        """Return the autoscaler of a service; a new one if its rule has changed, or an earlier service had its name."""
        name, rule = known.service.name, known.service.scale.scaler
        found = self._services.get(name)
        if found is not None and found.known is not known:
            found = None
        if found is None or found.scaler_name != rule:
            scaler = registry.load_scaler(rule)
            new = _Scaling(known, rule, scaler, ScaleState(scaler.begin()))
            if found is not None:
                new.capacity, new.routers, new.answers = found.capacity, found.routers, found.answers
            found = self._services[name] = new
        return found

    def _decide(self, known: ServiceState, now: Seconds) -> Resize:
        service = known.service
        found, staying = self._of(known), known.staying()
        for router in [name for name, each in found.routers.items() if now - each.at > ROUTER_TIMEOUT_S]:
            del found.routers[router]
        elapsed_s = 1.0 if found.decided_at is None else max(now - found.decided_at, 0.001)
        in_flight = sum(each.in_flight for each in found.routers.values())
        queued = sum(each.queued for each in found.routers.values())
        ready, slots = len(known.ready()), service.concurrency
        declared = service.scale.throughput or float(slots)
        capacity = found.capacity.requests_per_s(declared)
        load = Load(
            now, len(staying), ready, found.arrivals / elapsed_s, float(in_flight), queued, slots, capacity, declared
        )
        rule = service.scale
        tries = known.rollout.ready_at is None and not known.has_failed()  # a model may load for longer than that
        bounds = ScaleBounds(rule.min_replicas, rule.max_replicas, inf if tries else rule.to_zero_after_s)
        found.state, wish = decide(found.scaler, found.state, load, bounds)
        found.decided_at = now
        found.arrivals = 0
        found.figures = MeasuredLoad(load.arrivals, load.in_flight, queued, capacity)
        inputs = (("arrivals", load.arrivals), ("queued", float(queued)), ("capacity", capacity))
        return Resize(service.name, wish.replicas, wish.why, inputs)


def _next_counters(before: _Counters, load: ServiceLoad, now: Seconds, versions: dict[int, Answers]) -> _Counters:
    """Return the counters of a report, with the rates since the one before. Short times say little about a rate."""
    elapsed_s = now - before.at
    found = _Counters(load.arrivals, load.answered, load.in_flight, load.queued, now, load.waiting_s, versions=versions)
    if elapsed_s >= MIN_RATE_S:
        found.rate = (load.answered - before.answered) / elapsed_s
        found.full = load.waiting_s - before.waiting_s >= FULL_PART * elapsed_s
    return found
