"""The router: listens, keeps the table of services, and checks deadlines."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
import ssl
from contextlib import suppress
from typing import Protocol

from weft.router.pages import Pages
from weft.router.proxy.client import ClientConnection
from weft.router.proxy.exchange import Exchange
from weft.router.rules import refusals
from weft.router.rules.picking import Draw
from weft.router.rules.refusals import Refusal
from weft.router.rules.target import find_target, host_name, split_target
from weft.router.service import RoutedService, ServiceLoad
from weft.router.settings import SWEEP_S, RouterSettings
from weft.router.table import RouteTable, ServiceRoute

BACKLOG = 1024
HEALTH_PAGE = b"/-/healthz"
MAX_KNOWN_HOSTS = 1000


class Listener(Protocol):
    """Hears what an autoscaler has to know at once. Calls come from the event loop and must be quick."""

    def on_demand(self, service: str) -> None:
        """The first request of a service waits: no replica takes it."""

    def on_drained(self, service: str, replica: str) -> None:
        """A draining replica has answered its last request."""


class Silent:
    """A listener for a router without a scheduler."""

    def on_demand(self, service: str) -> None:
        pass

    def on_drained(self, service: str, replica: str) -> None:
        pass


class Router:
    """One process of the data plane."""

    def __init__(
        self, settings: RouterSettings, *, listener: Listener | None = None, draw: Draw = random.random
    ) -> None:
        self.settings, self.listener, self._draw = settings, listener or Silent(), draw
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time
        self.scheme = b"http"
        self.services: dict[str, RoutedService] = {}
        self.models: dict[str, RoutedService] = {}
        self.table = RouteTable()
        self.pages = Pages(self)
        self.clients: set[ClientConnection] = set()
        self.held_bytes = 0
        self.connections_opened = self.connections_refused = 0
        self.refusals: dict[str, int] = {}
        self.stopping = False
        self._names: dict[bytes, str] = {}
        self._hosts: dict[bytes, str] = {}
        self._known_hosts: dict[bytes, bool] = {}
        self._ids = itertools.count(1)
        self._id_prefix = os.urandom(5).hex().encode()
        self._servers: list[asyncio.Server] = []
        self._leaving: set[RoutedService] = set()
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)

    # ---- opening and closing

    async def listen(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, share_port: bool = False,
        listening: socket.socket | None = None,
    ) -> int:  # fmt: skip
        """Accept connections at this address, or at a socket that listens already, and return the port.

        `share_port`: other processes may use it too."""
        self.scheme = b"https" if tls is not None else b"http"
        if listening is not None:
            server = await self.loop.create_server(
                lambda: ClientConnection(self), sock=listening, ssl=tls, backlog=BACKLOG
            )
        else:
            server = await self.loop.create_server(
                lambda: ClientConnection(self), host, port, ssl=tls, backlog=BACKLOG, reuse_port=share_port or None
            )
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop: accept no connection, end the requests there are, at most for `drain_s`, then close all connections."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.stop()
        until_s = self.now() + self.settings.drain_s
        while self.clients and self.now() < until_s:
            await asyncio.sleep(0.01)
        for client in list(self.clients):
            client.abort()
        for service in (*self.services.values(), *self._leaving):
            await service.close()
        self._sweeper.cancel()
        while self.clients and self.now() < until_s + 1:
            await asyncio.sleep(0.01)

    # ---- the table

    def apply(self, table: RouteTable) -> None:
        """Serve this table from now on. Requests under way go on."""
        wanted = {service.name: service for service in table.services}
        for name in [name for name in self.services if name not in wanted]:
            self._remove(self.services.pop(name))
        for name, route in wanted.items():
            service = self.services.get(name)
            if service is None:
                self.services[name] = RoutedService(self, route, self._draw)
            else:
                service.update(route)
        self.table = table
        self.models = {model: self.services[each.name] for each in table.services for model in each.models}
        self._names = {name.encode(): name for name in wanted}
        self._hosts = {host.encode(): each.name for each in table.services for host in each.hosts}
        self._known_hosts.clear()

    def _remove(self, service: RoutedService) -> None:
        service.update(ServiceRoute(service.name))
        for exchange in list(service.dispatcher.queue):
            exchange.refuse(refusals.no_service(b"/" + service.name.encode()))
        if service.dispatcher.in_flight:
            self._leaving.add(service)

    def loads(self) -> list[ServiceLoad]:
        """Return the figures of all services."""
        return [service.load() for service in self.services.values()]

    # ---- requests

    def make_request_id(self) -> bytes:
        return b"%b-%x" % (self._id_prefix, next(self._ids))

    def admit(self, exchange: Exchange) -> Refusal | None:
        """Find the service of a request, or the reason to refuse it."""
        head = exchange.head
        where = split_target(head.target, head.host)
        if where is None:
            return refusals.bad_request("the request target is neither a path nor an http address")
        head.host, target = where
        if self.settings.allowed_hosts is not None and not self._is_known_host(head.host):
            return refusals.MISDIRECTED
        guard = self.settings.guard
        if guard is not None and target != HEALTH_PAGE:
            refusal = guard(head.authorization, exchange.client.peer.decode())
            if refusal is not None:
                return refusal
            head.authorization = None  # the token is for the router, not for replicas
        exchange.target = found = find_target(target, head.host, self._names, self._hosts)
        if found.kind == "unknown":
            return refusals.no_service(target.partition(b"?")[0])
        if found.kind in ("page", "models") and head.method not in (b"GET", b"HEAD"):
            return Refusal(405, "method_not_allowed", "this page is read-only")
        if found.kind == "model" and head.method != b"POST":
            return refusals.no_service(target.partition(b"?")[0])
        return None

    def _is_known_host(self, host: bytes) -> bool:
        known = self._known_hosts.get(host)
        if known is None:
            allowed = self.settings.allowed_hosts or frozenset()
            name = host_name(host)
            known = not host or name in allowed or name in self._hosts or _is_address(name)
            if len(self._known_hosts) < MAX_KNOWN_HOSTS:
                self._known_hosts[host] = known
        return known

    def count_refusal(self, refusal: Refusal) -> None:
        self.refusals[refusal.code] = self.refusals.get(refusal.code, 0) + 1

    def _sweep(self) -> None:
        """Act on deadlines that have passed."""
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
        now_s = self.now()
        for client in list(self.clients):
            client.check_deadline(now_s)
        for service in list(self.services.values()):
            service.sweep(now_s)
        self._leaving = {service for service in self._leaving if service.dispatcher.in_flight}


def _is_address(name: bytes) -> bool:
    import ipaddress

    with suppress(ValueError):
        ipaddress.ip_address(name.decode("ascii", "replace"))
        return True
    return False
