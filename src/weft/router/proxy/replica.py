"""A connection to a replica: sends requests, reads answers, and passes them to the client as they come."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

import httptools

from weft.router.proxy.exchange import ANSWERING, TUNNEL, Exchange
from weft.router.rules.answer_head import SPECIAL, AnswerHead
from weft.router.rules.refusals import BAD_ANSWER, REPLICA_FAILED

if TYPE_CHECKING:
    from weft.router.proxy.client import ClientConnection
    from weft.router.proxy.pool import ReplicaPool

LAST_CHUNK: Final = b"0\r\n\r\n"
MAX_INTERIM: Final = 16
"""Answers with a status from 100 to 199 to one request."""
LINE_BYTES: Final = 4
SILENCE_OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 4000),
)
"""The kernel ends a connection after 4 s of silence of the machine. The kernel of a hung replica still answers."""
WINDOW_BYTES: Final = 32_768
"""A replica that reads nothing holds this much of a body. The user timeout would end larger ones, as in silence."""


class ReplicaConnection(asyncio.Protocol):
    """One connection, and the exchange that uses it."""

    __slots__ = (
        "_bad", "_done", "_head", "_head_bytes", "_in_body", "_in_chunks", "_interim", "_keep_client", "_out",
        "_parser", "_reusable", "_sends_chunks", "_silent_bytes", "blocked", "exchange", "idle_since_s", "pool",
        "transport", "tunnel",
    )  # fmt: skip

    def __init__(self, pool: ReplicaPool) -> None:
        self.pool = pool
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        self.tunnel: ClientConnection | None = None
        self.blocked = False
        """True while the replica reads more slowly than the client sends."""
        self.idle_since_s = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._out: list[bytes] = []
        self._sends_chunks = False
        self._reset()

    def _reset(self) -> None:
        self._head = AnswerHead()
        self._head_bytes = self._silent_bytes = self._interim = 0
        self._in_body = self._in_chunks = self._done = self._bad = False
        self._reusable = self._keep_client = True

    # ---- requests

    def begin(self, exchange: Exchange) -> None:
        """Send the head of a request, and what has arrived of its body."""
        assert self.transport is not None
        self.exchange = exchange
        self._reset()
        head, target, client = exchange.head, exchange.target, exchange.client
        length = exchange.body_bytes if exchange.complete else head.content_length
        if not exchange.complete and length is None:
            length = None if head.chunked else 0
        self._sends_chunks = length is None
        parts = [head.render(target.target, target.prefix, client.peer, client.scheme, length)]
        if self._sends_chunks:
            parts.extend(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in exchange.body)
        else:
            parts += exchange.body
        exchange.sent_over(self)
        if exchange.body_bytes > WINDOW_BYTES or not exchange.complete:
            own_socket = self.transport.get_extra_info("socket")
            own_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)
        self.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def send_body(self, piece: bytes) -> None:
        """Send the next piece of a body."""
        assert self.transport is not None
        self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._sends_chunks else piece)

    def end_body(self) -> None:
        """Send the end of a body."""
        if self._sends_chunks:
            assert self.transport is not None
            self.transport.write(LAST_CHUNK)

    def is_closing(self) -> bool:
        """Return whether the connection takes no further request."""
        return self.transport is None or self.transport.is_closing()

    def abandon(self) -> None:
        """Close the connection at once: its exchange ended before the answer did."""
        self.exchange = self.tunnel = None
        if self.transport is not None:
            self.transport.abort()

    # ---- callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        own_socket = transport.get_extra_info("socket")
        for level, option, value in SILENCE_OPTIONS:
            own_socket.setsockopt(level, option, value)
        self.pool.connections.add(self)

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            self.abandon()  # a replica that speaks first is out of step
            return
        client, service = exchange.client, exchange.service
        assert service is not None
        exchange.deadline_s = client.router.loop.time() + service.route.timeouts.idle_s
        if self.tunnel is not None:
            client.write(data)
        else:
            self._read(data, exchange)
            if self.exchange is not exchange:
                return
        if client.blocked and self.transport is not None:
            self.transport.pause_reading()

    def _read(self, data: bytes, exchange: Exchange) -> None:
        self._silent_bytes += len(data)
        rest = b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            self._bad = self._bad or self._head.status != 101
        except httptools.HttpParserError:
            self._bad = self._bad or not self._done
            self._reusable = False
        limit = self.pool.router.settings.max_head_bytes
        if self._bad or (max(self._head_bytes, self._silent_bytes) > limit and not self._done):
            self._out = []
            exchange.replica_failed(BAD_ANSWER)
            return
        if self._out:
            client = exchange.client
            out = self._out
            client.write(out[0] if len(out) == 1 else b"".join(out))
            self._out = []
            if not exchange.answered:
                exchange.answered = True
                exchange.drop_body()
        if self._head.status == 101:
            self._open_tunnel(exchange, rest)
        elif self._done:
            self._finish()

    def _open_tunnel(self, exchange: Exchange, rest: bytes) -> None:
        exchange.phase = TUNNEL
        self.tunnel = exchange.client
        if rest:
            exchange.client.write(rest)
        exchange.client.open_tunnel(self)

    def _finish(self) -> None:
        exchange, transport = self.exchange, self.transport
        assert exchange is not None
        assert transport is not None
        self.exchange = None
        keep_client = self._keep_client and exchange.complete
        if self._reusable and exchange.complete and not transport.is_closing():
            transport.resume_reading()  # the client may be slow to take the end of this answer; the next one may not
            self.pool.keep(self)
        else:
            transport.close()
        exchange.answer_complete()
        exchange.client.exchange_done(exchange, keep_client)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        pool, exchange = self.pool, self.exchange
        pool.forget(self)
        self.transport = None
        if exchange is None:
            return
        if self.tunnel is not None:
            self.exchange = self.tunnel = None
            exchange.connection = None
            exchange.client.close_after_tunnel()
        elif error is None and self._ends_with_connection():
            if self._in_chunks:
                exchange.client.write(LAST_CHUNK)
            self.exchange = None
            exchange.answer_complete()
            exchange.client.exchange_done(exchange, self._keep_client and exchange.complete)
        else:
            self.exchange = None
            exchange.connection = None
            exchange.replica_failed(REPLICA_FAILED)

    def _ends_with_connection(self) -> bool:
        head = self._head
        return self._in_body and head.content_length is None and not head.chunked and not head.bodiless

    def pause_writing(self) -> None:
        self.blocked = True
        if self.exchange is not None:
            self.exchange.client.update_reading()

    def resume_writing(self) -> None:
        self.blocked = False
        if self.exchange is not None:
            self.exchange.grant_time()
            self.exchange.client.update_reading()

    # ---- callbacks of the parser

    def on_message_begin(self) -> None:
        if self._done or self.exchange is None:
            self._reusable = False  # an answer without a request
            return
        self._head = AnswerHead()
        self._head_bytes = self._silent_bytes = 0

    def on_status(self, reason: bytes) -> None:
        if not self._done:
            self._head.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._silent_bytes = 0
        self._head_bytes += len(name) + len(value) + LINE_BYTES
        if self._in_body or self._done:
            return  # trailers end at the router
        key = name.lower()
        if key not in SPECIAL:
            self._head.lines.append(b"%b: %b\r\n" % (name, value))
        elif not self._head.add(key, value):
            self._bad = True

    def on_headers_complete(self) -> None:
        exchange, head, parser = self.exchange, self._head, self._parser
        if self._done or exchange is None or self._bad:
            return
        head.status = status = parser.get_status_code()
        self._head_bytes = self._silent_bytes = 0
        if status < 200 and status != 101:
            self._interim += 1
            self._bad = self._interim > MAX_INTERIM or status < 100
            return
        request, client = exchange.head, exchange.client
        if status == 101 and not request.is_upgrade:
            self._bad = True
            return
        exchange.status = status
        exchange.phase = ANSWERING
        self._in_body = True
        self._reusable = parser.should_keep_alive() and request.method != b"HEAD"
        keep = request.keep_alive and not client.router.stopping and (status == 101 or not request.is_upgrade)
        marks = b"%bX-Request-Id: %b\r\n\r\n" % (self.pool.mark, request.request_id)
        rendered, self._in_chunks, self._keep_client = head.render(
            http10=not request.minor, method=request.method, keep_alive=keep and exchange.complete, marks=marks
        )
        self._out.append(rendered)
        if request.method == b"HEAD":
            self._done = True

    def on_body(self, piece: bytes) -> None:
        self._silent_bytes = 0
        if self._done or self._bad:
            return
        self._out.append(b"%x\r\n%b\r\n" % (len(piece), piece) if self._in_chunks else piece)

    def on_message_complete(self) -> None:
        if self._done or not self._in_body:
            return  # an interim answer
        self._done = True
        if self._in_chunks:
            self._out.append(LAST_CHUNK)
