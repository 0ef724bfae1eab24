"""The routers that follow a scheduler, and the draining replicas that none of them sends requests to (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft.model import JobId, Seconds
from weft.server.services.autoscaling import ROUTER_TIMEOUT_S

NO_ROUTER_S: Final = 10.0
"""No replica has requests once no router has followed for this long."""
Run = tuple[JobId, int]
"""A replica and the number of its run: a report about an earlier run says nothing about this one."""


class Routers:
    """Waits for the word of every router before a draining replica may end: each knows its requests alone."""

    def __init__(self) -> None:
        self._heard: dict[str, Seconds] = {}
        """The time of the last sign of each router that follows."""
        self._drained: dict[Run, set[str]] = {}
        """The draining replicas, each with the routers that have no request at it."""
        self._ejected: dict[str, frozenset[JobId]] = {}
        """The replicas that each router has ejected."""
        self._last_router_at: Seconds = 0.0
        self._checked_at: Seconds = 0.0
        self._complete_at: Seconds = 0.0
        """All routers that hold requests have been heard by then."""

    def begin(self, now: Seconds, *, had_services: bool) -> None:
        """Expect the routers of an earlier server: they hold requests, and take a moment to find this one."""
        self._last_router_at = self._checked_at = now
        self._complete_at = now + ROUTER_TIMEOUT_S if had_services else now

    def follow(self, router: str, now: Seconds) -> None:
        """Count a router: it has asked for the table, or has sent a report."""
        self._heard[router] = self._last_router_at = now

    def report(self, router: str, drained: Iterable[Run], now: Seconds, ejected: Iterable[JobId] = ()) -> None:
        """Take the word of a router that it has no request at these replicas, and sends none there. `ejected`: it sends
        none to these, because they fail."""
        self.follow(router, now)
        self._ejected[router] = frozenset(ejected)
        for run in drained:
            self._drained.setdefault(run, set()).add(router)

    def ejected(self) -> frozenset[JobId]:
        """Return the replicas that every router has ejected."""
        reports = [self._ejected.get(router, frozenset()) for router in self._heard]
        return frozenset.intersection(*reports) if reports else frozenset()

    def drained(self, draining: Sequence[Run], now: Seconds) -> list[Run]:
        """Return the draining replicas at which no router has a request. Call it each second."""
        if now - self._checked_at > ROUTER_TIMEOUT_S:  # the server stood still: it could not hear its routers
            self.begin(now, had_services=True)
        self._checked_at = now
        self._heard = {router: at for router, at in self._heard.items() if now - at <= ROUTER_TIMEOUT_S}
        self._ejected = {router: each for router, each in self._ejected.items() if router in self._heard}
        self._drained = {run: routers for run, routers in self._drained.items() if run in draining}
        if now < self._complete_at:
            return []
        if not self._heard:
            return list(draining) if now - self._last_router_at >= NO_ROUTER_S else []
        return [run for run in draining if self._heard.keys() <= self._drained.get(run, set())]
