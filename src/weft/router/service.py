"""A service as a router serves it: its dispatcher, the connections to its replicas, and its counters."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.access.endpoints.addresses import Address
from weft.router.proxy.exchange import Exchange
from weft.router.proxy.pool import ReplicaPool
from weft.router.proxy.probe import answers
from weft.router.rules.dispatch import Dispatcher, ReplicaLoad, ReplicaPlan
from weft.router.rules.picking import Draw
from weft.router.rules.refusals import service_failed
from weft.router.settings import CHECK_TIMEOUT_S, PROBE_PAUSE_S
from weft.router.table import ServiceRoute

if TYPE_CHECKING:
    from weft.router.app import Router

MAX_VERSIONS: Final = 12
"""The versions of a service of which the router counts requests."""
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ServiceLoad(NamedTuple):
    """Figures of a service for an autoscaler. Counts grow from the start of the router."""

    service: str
    arrivals: int
    answered: int
    in_flight: int
    queued: int
    ready: int
    waiting_s: float = 0.0
    """Seconds in which requests waited."""
    replicas: tuple[ReplicaLoad, ...] = ()
    versions: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """The requests that ended at replicas of each version, and those of them that failed."""


class RoutedService:
    """One service."""

    def __init__(self, router: Router, route: ServiceRoute, draw: Draw) -> None:
        self.name, self.route, self._router = route.name, route, router
        self.dispatcher: Dispatcher[Exchange] = Dispatcher(draw, route.max_queue)
        self.pools: dict[ReplicaLoad, ReplicaPool] = {}
        self.arrivals = self.retries = self.connect_errors = 0
        self.codes: dict[int, int] = {}
        self.seconds_sum = 0.0
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.probes: dict[ReplicaLoad, asyncio.Task[None]] = {}
        self._versions: dict[int, tuple[int, int]] = {}
        self._silent: set[str] = set()
        """The replicas on nodes whose agents are silent."""
        self._starting = False
        self._waiting_s = 0.0
        self._waiting_since_s: float | None = None
        self.update(route)

    def update(self, route: ServiceRoute) -> None:
        """Set the replicas and options. Replicas that left finish the requests they have."""
        self.route = route
        self.dispatcher.max_queue, self.dispatcher.balance = route.max_queue, route.balance
        addresses = {replica.name: replica.address for replica in route.replicas}
        moved = {name for name, load in self.dispatcher.replicas.items() if self._has_moved(load, addresses)}
        plans = [
            ReplicaPlan(each.name, each.concurrency, each.weight, each.draining, each.version)
            for each in route.replicas
        ]
        gone = self.dispatcher.update(plan for plan in plans if plan.name not in moved)
        if moved:  # the same name at another address is another replica
            gone += self.dispatcher.update(plans)
        for load in self.dispatcher.replicas.values():
            if load not in self.pools:
                self.pools[load] = ReplicaPool(self._router, load, addresses[load.name])
        for load in gone:
            self._forget_if_done(load)
            if (probe := self.probes.pop(load, None)) is not None:
                probe.cancel()
        silent = {each.name for each in route.replicas if each.silent}
        for name in silent - self._silent:
            self._begin(self._check, self.dispatcher.replicas[name])
        self._silent = silent
        for load in list(self.dispatcher.replicas.values()):
            if load.is_drained():
                self._router.listener.on_drained(self.name, load.name)
        if route.failed and not self.dispatcher.has_ready():
            for exchange in list(self.dispatcher.queue):
                exchange.refuse(service_failed(route.failed))
        self.start_waiting()

    def _has_moved(self, load: ReplicaLoad, addresses: Mapping[str, Address]) -> bool:
        return load.name in addresses and self.pools[load].address != addresses[load.name]

    def release(self, replica: ReplicaLoad) -> None:
        """Free the place of a request at a replica."""
        self.dispatcher.release(replica)
        if replica.removed:
            self._forget_if_done(replica)
        elif replica.draining and not replica.outstanding:
            self._router.listener.on_drained(self.name, replica.name)

    # ---- failures

    def note_answer(self, replica: ReplicaLoad, status: int) -> None:
        """Count a whole answer. A replica that gives several bad ones in a row gets no requests for a time."""
        replica.health.note_answer(status)
        self._count_end(replica, failed=status >= 500)
        if status >= 500:
            self.dispatcher.judge(replica, self._router.now())

    def note_failure(self, replica: ReplicaLoad, error: str, *, ended: bool) -> None:
        """Take a replica that did not answer a request out of the rotation, and begin to probe it. `ended`: no other
        replica gets the request."""
        replica.health.note_failure()
        if ended:
            self._count_end(replica, failed=True)
        self.suspect(replica, error)
        self.dispatcher.judge(replica, self._router.now())

    def _count_end(self, replica: ReplicaLoad, *, failed: bool) -> None:
        answered, errors = self._versions.get(replica.version, (0, 0))
        self._versions[replica.version] = (answered + 1, errors + failed)
        if len(self._versions) > MAX_VERSIONS:
            del self._versions[min(self._versions)]

    def suspect(self, replica: ReplicaLoad, error: str) -> None:
        """Send a replica no requests until it answers a probe."""
        replica.health.last_error = error
        if replica.removed:
            return
        self.dispatcher.suspect(replica)
        self._begin(self._probe, replica)

    def _begin(self, probe: Callable[[ReplicaLoad], Coroutine[None, None, None]], replica: ReplicaLoad) -> None:
        if replica not in self.probes and not self._router.stopping:
            self.probes[replica] = self._router.loop.create_task(probe(replica))

    async def _check(self, replica: ReplicaLoad) -> None:
        """Take a replica out of the rotation that answers no more than the agent of its node."""
        well = await answers(self.pools[replica].address, self.route.health, CHECK_TIMEOUT_S)
        del self.probes[replica]
        if not well or replica.health.suspect:
            self.suspect(replica, replica.health.last_error if well else "its node is silent, and it answers no probe")

    async def _probe(self, replica: ReplicaLoad) -> None:
        address = self.pools[replica].address
        while not await answers(address, self.route.health):
            await asyncio.sleep(PROBE_PAUSE_S)
        del self.probes[replica]
        self.dispatcher.clear(replica)
        self.start_waiting()

    def _forget_if_done(self, replica: ReplicaLoad) -> None:
        pool = self.pools.get(replica)
        if pool is not None:
            pool.close_idle(self._router.now())
            if not replica.outstanding:
                del self.pools[replica]

    def start_waiting(self) -> None:
        """Start the requests for which there is a replica now."""
        if self._starting or not self.dispatcher.queue:
            return
        self._starting = True  # a start that fails at once comes back here
        try:
            for exchange, replica in self.dispatcher.assignments():
                exchange.start(replica)
        finally:
            self._starting = False
            self.note_queue()

    def why_waiting(self) -> str:
        """Return why requests wait for a replica."""
        if self.dispatcher.has_ready():
            return "all replicas are busy"
        errors = [each.health.last_error for each in self.dispatcher.replicas.values() if each.health.suspect]
        return f"no replica answers a probe: {errors[0]}" if errors else "no replica is ready"

    def note_queue(self) -> None:
        """Count the time in which requests wait. Called when the queue may have become empty, or no longer is."""
        since_s, waits = self._waiting_since_s, bool(self.dispatcher.queue)
        if waits and since_s is None:
            self._waiting_since_s = self._router.now()
        elif not waits and since_s is not None:
            self._waiting_s += self._router.now() - since_s
            self._waiting_since_s = None

    def count(self, code: int, seconds: float) -> None:
        """Count a request that ended."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.seconds_sum += seconds
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1

    def sweep(self, now_s: float) -> None:
        """End ejections, and close connections that were idle for long."""
        if self.dispatcher.ejected:
            self.dispatcher.end_ejections(now_s)
            self.start_waiting()
        for pool in self.pools.values():
            pool.close_idle(now_s)

    def load(self) -> ServiceLoad:
        """Return the present figures."""
        dispatcher = self.dispatcher
        ready = sum(replica.is_in() for replica in dispatcher.replicas.values())
        answered = sum(self.codes.values())
        self.note_queue()
        since_s = self._waiting_since_s
        waiting_s = self._waiting_s + (0.0 if since_s is None else self._router.now() - since_s)
        queued = len(dispatcher.queue)
        replicas = tuple(dispatcher.replicas.values())
        return ServiceLoad(
            self.name, self.arrivals, answered, dispatcher.in_flight, queued, ready, waiting_s, replicas,
            MappingProxyType(self._versions.copy()),
        )  # fmt: skip

    async def close(self) -> None:
        """Close all connections."""
        for probe in self.probes.values():
            probe.cancel()
        for pool in list(self.pools.values()):
            await pool.close()
