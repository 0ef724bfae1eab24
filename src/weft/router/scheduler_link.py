"""The scheduler behind a router: it sends tables of services, and gets the load of each.

The client of the scheduler is synchronous, so a thread follows the tables and another sends the reports. Without the
scheduler the router serves its last table, and the link connects again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, Protocol

from weft.access.client import Client
from weft.access.endpoints.addresses import parse_address
from weft.access.wire import messages as m
from weft.errors import WeftError
from weft.model import Timeouts
from weft.router.rules.picking import BALANCE_RULES, BalanceRule
from weft.router.rules.retry import RETRY_RULES, RetryRule
from weft.router.service import ServiceLoad
from weft.router.table import MAX_QUEUE, ReplicaRoute, RouteTable, ServiceRoute

REPORT_S: Final = 1.0
RETRY_S: Final = 0.5
log = logging.getLogger(__name__)


class Loads(Protocol):
    def loads(self) -> list[ServiceLoad]:
        """Return the figures of all services."""


class SchedulerLink:
    """Follows the table of a scheduler, and reports the load of services to it."""

    def __init__(self, connect: Callable[[], Client], address: str) -> None:
        self._connect, self._address = connect, address
        self._id = os.urandom(8).hex()
        self._drained: set[str] = set()
        self._wake = asyncio.Event()
        self._ended = threading.Event()
        self._reporter: Client | None = None

    # ---- tables

    async def tables(self) -> AsyncIterator[RouteTable]:
        loop, found = asyncio.get_running_loop(), asyncio.Queue[RouteTable]()

        def follow() -> None:
            while not self._ended.is_set():
                try:
                    with self._connect() as client:
                        for table in client.routes(self._address, self._id):
                            loop.call_soon_threadsafe(found.put_nowait, read_table(table))
                except (WeftError, OSError) as error:
                    log.info("no scheduler: %s", str(error).partition("\n")[0])
                except RuntimeError:  # the event loop has ended
                    return
                self._ended.wait(RETRY_S)

        threading.Thread(target=follow, name="tables", daemon=True).start()
        while True:
            yield await found.get()
            self._wake.set()  # the table is in use: a report tells the scheduler that its services have URLs

    # ---- loads

    def on_demand(self, service: str) -> None:  # noqa: ARG002
        """Report at once: the first request of a service waits."""
        self._wake.set()

    def on_drained(self, service: str, replica: str) -> None:  # noqa: ARG002
        self._drained.add(replica)
        self._wake.set()

    async def report(self, router: Loads) -> None:
        """Report the load of all services each second, and at once if a request waits or a replica is drained."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), REPORT_S)
            self._wake.clear()
            drained = set(self._drained)
            loads = [load_message(each) for each in router.loads()]
            report = m.LoadReport(router=self._id, services=loads, drained=sorted(drained))
            if await asyncio.to_thread(self._send, report):
                self._drained -= drained

    def _send(self, report: m.LoadReport) -> bool:
        try:
            if self._reporter is None:
                self._reporter = self._connect()
            self._reporter.report_loads(report)
        except (WeftError, OSError):
            self._close_reporter()
            self._ended.wait(RETRY_S)
            return False
        return True

    def _close_reporter(self) -> None:
        if self._reporter is not None:
            self._reporter.close()
            self._reporter = None

    def close(self) -> None:
        self._ended.set()
        self._close_reporter()


def load_message(load: ServiceLoad) -> m.ServiceLoad:
    """Return the figures of a service as a message."""
    ejected = [each.name for each in load.replicas if each.health.is_out()]
    versions = [m.VersionLoad(version=at, answered=each[0], errors=each[1]) for at, each in load.versions.items()]
    return m.ServiceLoad(
        service=load.service, arrivals=load.arrivals, answered=load.answered, in_flight=load.in_flight,
        queued=load.queued, waiting_s=load.waiting_s, ejected=ejected, versions=versions,
    )  # fmt: skip


def read_table(table: m.RouteTable) -> RouteTable:
    """Return the table of a message."""
    return RouteTable(tuple(_service(each) for each in table.services), table.number)


def _service(route: m.ServiceRoute) -> ServiceRoute:
    replicas = tuple(
        ReplicaRoute(
            each.name,
            parse_address(each.address),
            each.concurrency,
            draining=each.draining,
            version=each.version,
            silent=each.silent,
        )
        for each in route.replicas
    )
    timeouts = Timeouts(route.queue_s, route.answer_s, route.idle_s, route.drain_s)
    retry: RetryRule = next((rule for rule in RETRY_RULES if rule == route.retry), "safe")
    balance: BalanceRule = next((rule for rule in BALANCE_RULES if rule == route.balance), "p2c")
    return ServiceRoute(
        route.name, replicas, tuple(route.models), timeouts=timeouts, retry=retry,
        max_queue=route.max_queue or MAX_QUEUE, balance=balance, health=route.health or "/",
        failed=route.failed,
    )  # fmt: skip
