"""The services of a running server: reports of routers, decisions of autoscalers, and the tables of routers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from weft.access.wire.messages import LoadReport, RouteTable
from weft.model import Decision, Event, JobId, ReplicaDrained, Seconds, Service
from weft.node.engine.background import TaskSet
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.state import State
from weft.scheduling.scaling.port import TICK_S, Resize
from weft.server.loop import Loop
from weft.server.services.autoscaling import Autoscaling
from weft.server.services.routers import Routers, Run
from weft.server.services.routes import route_table

MAX_DRAINED: Final = 1000
log = logging.getLogger(__name__)


class LiveServices:
    """Connects services with their routers, and lets autoscalers decide once a second."""

    def __init__(self, loop: Loop, state: Callable[[], State]) -> None:
        self._loop, self._state = loop, state
        self.autoscaling = Autoscaling()
        self._routers = Routers()
        self._addresses: dict[str, int] = {}
        """The addresses of routers that follow the table, each with the number of its streams."""
        self._tasks = TaskSet()
        self._number = 0
        self.on_first_service: Callable[[], None] = lambda: None
        """Called as soon as there is a service: a router must run."""
        self.check_router: Callable[[], None] = lambda: None
        """Called before a service is deployed; raises if this scheduler could not start its router."""

    def open(self) -> None:
        self._routers.begin(self._loop.clock.now(), had_services=bool(self._state().services.by_name))
        self._tasks.every(TICK_S, self._tick, "scaling the services")

    async def close(self) -> None:
        await self._tasks.close()

    def url(self, service: str) -> str:
        """Return the URL of a service at a router; empty until one serves it."""
        address = next(iter(self._addresses), "") if self.autoscaling.is_served(service) else ""
        base = address if "://" in address else f"http://{address}"
        return f"{base}/{service}" if address else ""

    # ---- routers

    async def tables(self, address: str, router: str) -> AsyncIterator[RouteTable]:
        """Stream the table to a router at this address: whole, and again after each change."""
        if router:  # an older router names itself only in its reports
            self._routers.follow(router, self._loop.clock.now())
        self._addresses[address] = self._addresses.get(address, 0) + 1
        try:
            sent: tuple[int, int] | None = None
            while True:
                state = self._state()
                present = (id(state), state.services.revision)
                if present != sent:
                    sent = present
                    self._number += 1
                    yield route_table(state, self._number)
                async with self._loop.changed:
                    await self._loop.changed.wait_for(self._has_changed(present))
        finally:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def _has_changed(self, seen: tuple[int, int]) -> Callable[[], bool]:
        def check() -> bool:
            state = self._state()
            return (id(state), state.services.revision) != seen

        return check

    def receive(self, report: LoadReport) -> None:
        """Take the report of a router. Replicas start at once if requests wait for a service that has none."""
        now = self._loop.clock.now()
        urgent = self.autoscaling.receive(report.router, report, self._state(), now)
        drained = set(report.drained[:MAX_DRAINED])
        ejected = (name for load in report.services for name in load.ejected)
        self._routers.report(report.router, (run for run in self._draining() if run[0] in drained), now, ejected)
        if drained:
            self._end_drains()
        self._resize(urgent)

    def ejected(self) -> frozenset[JobId]:
        """Return the replicas to which no router sends requests, because they fail."""
        return self._routers.ejected()

    def _draining(self) -> list[Run]:
        """Return the draining replicas that may have requests."""
        return [
            (replica.id, replica.run)
            for service in self._state().services.by_name.values()
            for replica in service.replicas.values()
            if replica.draining_since is not None and not replica.drained
        ]

    def _end_drains(self) -> None:
        """End the draining replicas at which no router has a request."""
        if drained := self._routers.drained(self._draining(), self._loop.clock.now()):
            self._loop.post(lambda now: self._drained(drained, now))

    def _drained(self, runs: list[Run], now: Seconds) -> list[Event]:
        draining = set(self._draining())
        return [ReplicaDrained(now, *run) for run in runs if run in draining]

    # ---- scaling

    def _tick(self) -> None:
        state = self._state()
        self._end_drains()
        if not state.services.by_name:
            return
        self.on_first_service()
        now = self._loop.clock.now()
        for known in state.services.by_name.values():
            if why := self.autoscaling.judge(known, now)[1]:
                self._roll_back(known.service, why)
        self._resize(self.autoscaling.decide(state, now))

    def _roll_back(self, service: Service, why: str) -> None:
        self._loop.decide(lambda scheduler, now: scheduler.roll_back(now, service.name, service.version, why))

    def _resize(self, wishes: list[Resize]) -> None:
        known = self._state().services.by_name
        changed = [wish for wish in wishes if wish.service in known and wish.replicas != known[wish.service].wanted]
        if changed:
            self._loop.decide(lambda scheduler, now: _resize(scheduler, changed, now))


def _resize(scheduler: Scheduler, wishes: list[Resize], now: Seconds) -> list[Decision]:
    """Decide on the wishes of autoscalers, except those for services that are gone by now."""
    found: list[Decision] = []
    for wish in wishes:
        if wish.service in scheduler.state.services.by_name:
            found += scheduler.resize(now, wish.service, wish.replicas, wish.why, wish.inputs)
    return found
