"""A connection of a client: reads requests, answers them one after the other, and keeps them apart."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from weft.router.proxy.exchange import DONE, Exchange
from weft.router.proxy.request_reader import RequestReader
from weft.router.rules.refusals import (
    REQUEST_TIMEOUT,
    TOO_MANY_CONNECTIONS,
    Refusal,
    render_answer,
    render_refusal,
)
from weft.router.rules.request_head import RequestHead

if TYPE_CHECKING:
    from weft.router.app import Router
    from weft.router.proxy.replica import ReplicaConnection

MAX_PIPELINED: Final = 8
"""Requests that are read ahead before the router stops reading. One read may exceed it."""
LINGER_S: Final = 2.0
MAX_LINGER_BYTES: Final = 1 << 20
"""A client that is refused while it sends gets this long, and may send this much, before the connection closes."""


class ClientConnection(asyncio.Protocol):
    """One connection of a client."""

    __slots__ = (
        "_advancing", "_closing", "_idle_deadline_s", "_lingered_bytes", "_paused", "_pending", "_reader",
        "_receiving", "blocked", "body_timeout_s", "current", "peer", "router", "scheme", "transport", "tunnel",
    )  # fmt: skip

    def __init__(self, router: Router) -> None:
        self.router = router
        self.transport: asyncio.Transport | None = None
        self.peer, self.scheme = b"unknown", router.scheme
        self.current: Exchange | None = None
        """The request that is answered now."""
        self.tunnel: ReplicaConnection | None = None
        self.blocked = False
        """True while the client reads more slowly than the replica answers."""
        self.body_timeout_s = router.settings.body_timeout_s
        self._pending: deque[Exchange] = deque()
        """Requests that follow on the same connection."""
        self._receiving: Exchange | None = None
        """The request whose body is being read."""
        self._reader = RequestReader(self, router.settings)
        self._paused = self._closing = self._advancing = False
        self._lingered_bytes = 0
        self._idle_deadline_s = 0.0

    # ---- callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # those of uvloop are not of this class
        name = transport.get_extra_info("peername")
        if name:
            self.peer = str(name[0]).encode("ascii", "replace")
        router = self.router
        router.connections_opened += 1
        if len(router.clients) >= router.settings.max_connections:
            router.connections_refused += 1
            transport.write(render_refusal(TOO_MANY_CONNECTIONS, close=True, head=False))
            self._closing = True
            transport.close()
            return
        router.clients.add(self)
        self._idle_deadline_s = router.now() + router.settings.keep_alive_s

    def data_received(self, data: bytes) -> None:
        if self.tunnel is not None:
            self._pass_through(data)
            return
        if self._closing:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > MAX_LINGER_BYTES:
                self.abort()
            return
        began_in_head = self._reader.in_head
        self._reader.feed(data)
        if self._reader.in_head and not began_in_head:
            self._idle_deadline_s = self.router.now() + self.router.settings.head_timeout_s
        self._advance()

    def _pass_through(self, data: bytes) -> None:
        tunnel, exchange = self.tunnel, self.current
        if (
            tunnel is not None
            and tunnel.transport is not None
            and exchange is not None
            and exchange.service is not None
        ):
            tunnel.transport.write(data)
            exchange.deadline_s = self.router.now() + exchange.service.route.timeouts.idle_s

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self.router.clients.discard(self)
        self.transport = None
        self._closing = True
        while self._pending:
            self._pending.popleft().client_left()
        current, self.current, self.tunnel = self.current, None, None
        if current is not None:
            current.client_left()

    def pause_writing(self) -> None:
        self.blocked = True
        self._set_replica_reading(False)

    def resume_writing(self) -> None:
        self.blocked = False
        self._set_replica_reading(True)

    def _set_replica_reading(self, reads: bool) -> None:
        connection = self.current.connection if self.current is not None else None
        if connection is None or connection.transport is None or connection.transport.is_closing():
            return
        if reads:
            connection.transport.resume_reading()
        else:
            connection.transport.pause_reading()

    # ---- callbacks of the reader

    def request_begun(self, head: RequestHead) -> None:
        self._receiving = Exchange(self, head)
        self._pending.append(self._receiving)

    def request_body(self, piece: bytes) -> None:
        exchange = self._receiving
        if exchange is not None and exchange.phase != DONE:
            exchange.add_body(piece)

    def request_complete(self) -> None:
        exchange, self._receiving = self._receiving, None
        if exchange is not None and exchange.phase != DONE:
            exchange.end_body()

    def request_refused(self, refusal: Refusal) -> None:
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            self._pending.append(Exchange(self, RequestHead(), refusal))
        elif exchange is self.current and exchange.phase != DONE:
            if exchange.answered:
                exchange.client_left()
                self.cut()
            else:
                exchange.refuse(refusal)
        else:
            exchange.refusal = refusal

    # ---- requests, one after the other

    def _advance(self) -> None:
        """Go on with the current request, or with the next ones. Let other connections have a turn after a few."""
        self._advancing = True
        for _ in range(MAX_PIPELINED):
            if self._closing:
                break
            if self.current is not None:
                self.current.advance()
            if self.current is not None or not self._pending:
                break
            self.current = self._pending.popleft()
        else:
            self.router.loop.call_soon(self._advance)
        self._advancing = False
        self.update_reading()

    def update_reading(self) -> None:
        """Read from the client, unless it has to wait."""
        transport = self.transport
        if transport is None or self._closing or transport.is_closing():
            return
        current = self.current
        pause = current is not None and (
            len(self._pending) >= MAX_PIPELINED
            or (self._receiving is not None and (self._receiving is not current or current.holds_enough()))
            or (self._reader.ended and self.tunnel is None and current.head.is_upgrade)
        )
        if self.tunnel is not None:
            pause = self.tunnel.blocked
        if pause != self._paused:
            self._paused = pause
            if pause:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def exchange_done(self, exchange: Exchange, keep_alive: bool) -> None:
        """Go on to the next request, or close the connection after the last."""
        if self.current is not exchange:
            return
        self.current = None
        if self.transport is None:
            return
        if not keep_alive or not exchange.complete or self.router.stopping:
            self._close(lingers=not exchange.complete)
            return
        self._idle_deadline_s = self.router.now() + self.router.settings.keep_alive_s
        if self._advancing:
            return
        if self._pending:
            self.router.loop.call_soon(self._advance)
        elif self._paused:
            self.update_reading()

    # ---- answers

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def write_refusal(self, exchange: Exchange, refusal: Refusal) -> None:
        """Answer a request with an error."""
        head = exchange.head
        keep = self._may_keep(exchange) and refusal.status != 400
        name = exchange.service.name if exchange.service is not None else ""
        self.write(
            render_refusal(
                refusal, service=name, request_id=head.request_id, close=not keep, head=head.method == b"HEAD"
            )
        )
        self.router.count_refusal(refusal)
        self.exchange_done(exchange, keep)

    def write_page(self, exchange: Exchange, status: int, content_type: bytes, body: bytes) -> None:
        """Answer a request with a page of the router."""
        head = exchange.head
        keep = self._may_keep(exchange)
        self.write(
            render_answer(
                status, content_type, body, request_id=head.request_id, close=not keep, head=head.method == b"HEAD"
            )
        )
        self.exchange_done(exchange, keep)

    def _may_keep(self, exchange: Exchange) -> bool:
        head = exchange.head
        in_step = exchange.complete and not (self._reader.ended and exchange.refusal is not None)
        return in_step and head.keep_alive and bool(head.minor) and not head.is_upgrade and not self.router.stopping

    # ---- tunnels

    def open_tunnel(self, connection: ReplicaConnection) -> None:
        """Pass bytes to and from a replica from now on."""
        self.tunnel = connection
        early, self._reader.early = self._reader.early, b""
        if early:
            self._pass_through(early)
        self.update_reading()

    def close_after_tunnel(self) -> None:
        """Close the connection: the replica closed its side of a tunnel."""
        exchange, self.current, self.tunnel = self.current, None, None
        if exchange is not None:
            exchange.tunnel_ended()
        self._close(lingers=False)

    # ---- the end

    def cut(self) -> None:
        """Close the connection in the middle of an answer, so that the client sees that it is not whole."""
        in_chunks_or_counted = self.current is not None and self.current.head.minor
        self.current = self.tunnel = None
        if in_chunks_or_counted and not self.blocked:
            self._close(lingers=False)
        else:
            self.abort()

    def _close(self, *, lingers: bool) -> None:
        """Close after what was written. `lingers`: the client still sends, and would lose the answer otherwise."""
        transport = self.transport
        self._closing = True
        if transport is None:
            return
        if lingers and transport.can_write_eof() and not transport.is_closing():
            self._idle_deadline_s = self.router.now() + LINGER_S
            transport.write_eof()
            if self._paused:
                self._paused = False
                transport.resume_reading()
        else:
            transport.close()

    def abort(self) -> None:
        """Close at once; a request under way is aborted."""
        if self.transport is not None:
            self.transport.abort()

    def check_deadline(self, now_s: float) -> None:
        """Act if the client, or the replica that answers it, takes too long."""
        current = self.current
        if current is not None:
            if current.deadline_s < now_s and current.deadline_s:
                current.expire()
        elif self._idle_deadline_s < now_s:
            if self._closing or self.blocked or not self._reader.in_head:
                self.abort()
            else:
                self.write(render_refusal(REQUEST_TIMEOUT, close=True, head=False))
                self._close(lingers=True)

    def stop(self) -> None:
        """Close the connection if it is idle; otherwise after its request."""
        if self.current is None and not self._pending and not self._reader.in_head:
            self._close(lingers=False)
