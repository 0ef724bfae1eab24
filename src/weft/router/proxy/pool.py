"""The connections to one replica: idle ones, and requests that wait for a new one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import Address
from weft.router.proxy.replica import ReplicaConnection
from weft.router.rules.retry import IDEMPOTENT
from weft.router.settings import FRESH_S, IDLE_REPLICA_S

if TYPE_CHECKING:
    from weft.router.app import Router
    from weft.router.proxy.exchange import Exchange
    from weft.router.rules.dispatch import ReplicaLoad

MAX_IDLE: Final = 256


class ReplicaPool:
    """Opens, keeps and closes the connections to one replica."""

    def __init__(self, router: Router, load: ReplicaLoad, address: Address) -> None:
        self.router, self.load, self.address = router, load, address
        self.mark = b"X-Weft-Replica: %b\r\n" % load.name.encode("ascii", "backslashreplace")
        self.connections: set[ReplicaConnection] = set()
        self._idle: list[ReplicaConnection] = []
        """The longest idle connection comes first."""
        self._connecting: dict[Exchange, asyncio.Task[None]] = {}

    def begin(self, exchange: Exchange) -> None:
        """Send a request over an idle connection, or over a new one."""
        idle = self._idle
        while idle and idle[-1].is_closing():
            idle.pop()
        if idle:
            is_fresh = self.router.now() - idle[-1].idle_since_s < FRESH_S
            if is_fresh or exchange.head.method in IDEMPOTENT:
                idle.pop().begin(exchange)
                return
        self._connecting[exchange] = self.router.loop.create_task(self._connect(exchange))

    async def _connect(self, exchange: Exchange) -> None:
        connection: ReplicaConnection | None = None
        error = "the connection was lost at once"
        try:
            async with asyncio.timeout(self.router.settings.connect_timeout_s):
                _, connection = await self.router.loop.create_connection(
                    lambda: ReplicaConnection(self), self.address.host, self.address.port
                )
        except TimeoutError:
            error = f"no connection within {self.router.settings.connect_timeout_s:g} s"
        except OSError as failure:
            error = os.strerror(failure.errno) if failure.errno else str(failure)
        waits = self._connecting.pop(exchange, None) is not None
        if connection is None or connection.transport is None:
            if waits:
                exchange.connect_failed(error)
        elif waits:
            connection.begin(exchange)
        else:
            self.keep(connection)

    def stop_waiting(self, exchange: Exchange) -> None:
        """Forget a request that waits for a connection. The connection is kept for others."""
        self._connecting.pop(exchange, None)

    def keep(self, connection: ReplicaConnection) -> None:
        """Keep a connection for the next request."""
        if self.load.removed or len(self._idle) >= MAX_IDLE or self.router.stopping:
            connection.abandon()
        else:
            connection.idle_since_s = self.router.now()
            self._idle.append(connection)

    def forget(self, connection: ReplicaConnection) -> None:
        """Forget a connection that is lost."""
        self.connections.discard(connection)
        if connection.exchange is None and connection in self._idle:
            self._idle.remove(connection)

    def close_idle(self, now_s: float) -> None:
        """Close the connections that were idle for long, and all of a replica that left."""
        oldest_s = float("inf") if self.load.removed else now_s - IDLE_REPLICA_S
        while self._idle and self._idle[0].idle_since_s < oldest_s:
            self._idle.pop(0).abandon()

    async def close(self) -> None:
        """Close all connections."""
        tasks = list(self._connecting.values())
        self._connecting.clear()
        for task in tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.abandon()
        await asyncio.gather(*tasks, return_exceptions=True)
