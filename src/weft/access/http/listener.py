"""A port that serves an HTTP application inside the running event loop, with limits on slow and silent clients.

Uvicorn's `startup` and `shutdown` are called directly: `Server.serve` would install signal handlers and wake up ten
times a second.
"""

from __future__ import annotations

import asyncio
import socket
from errno import EADDRNOTAVAIL
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.access.auth import tls
from weft.access.endpoints.addresses import is_loopback
from weft.errors import InputError, WeftError

REQUEST_TIMEOUT_S: Final = 10.0
"""The most seconds that a connection may take to send a request."""
STALL_S: Final = 30.0
"""A client that reads nothing for this long while an answer waits is disconnected."""
MAX_HEAD_BYTES: Final = 8192
CLOSE_TIMEOUT_S: Final = 1
MAX_CONNECTIONS: Final = 4000
BACKLOG: Final = 1024


class TlsFiles(NamedTuple):
    certificate: Path
    key: Path


class Listener:
    """Serves one application on one socket."""

    def __init__(self, app: ASGIApp, tls: TlsFiles | None = None) -> None:
        self._app, self._tls = app, tls
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None

    async def open(self, bound: socket.socket) -> int:
        """Listen on a bound socket, and return its port."""
        self._socket = bound
        files = self._tls
        config = uvicorn.Config(
            self._app, http=_TimedProtocol, ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, date_header=False, h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S, backlog=BACKLOG, limit_concurrency=MAX_CONNECTIONS,
            ssl_certfile=files.certificate if files else None, ssl_keyfile=files.key if files else None,
        )  # fmt: skip
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup([bound])
        return int(bound.getsockname()[1])

    async def close(self) -> None:
        if self._server is not None and self._socket is not None:
            await self._server.shutdown([self._socket])
            self._server = None


class _TimedProtocol(H11Protocol):
    """Closes a connection that sends no request or reads no answer: Uvicorn alone would keep it for ever."""

    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._await_request()  # of the next one, too

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._cancel_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Uvicorn waits: the client does not read. Its buffer is limited; its time is limited here."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stall()

    def _cancel_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_idle)

    def _close_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.transport.close()


def bind(host: str, port: int, *, port_flag: str, host_flag: str) -> socket.socket:
    """Return a socket at this address; errors name the flags. Port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise WeftError(f"{host_flag} {host}: {error.strerror}\n  give an address of this machine") from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        what, hint = f"{port_flag} {port}", "choose another port"
        if error.errno == EADDRNOTAVAIL:
            what, hint = f"{host_flag} {host}", "give an address of this machine"
        raise WeftError(f"{what}: {error.strerror}\n  {hint}") from None
    return found


def tls_files(host: str, port: int, folder: Path, flag: str) -> TlsFiles | None:
    """Return the certificate that pages at this address need; None on loopback. Raise if there is none."""
    if is_loopback(host):
        return None
    if tls.load(folder) is None:
        raise InputError(
            f"{flag}: {host} can be reached from other machines, and there is no certificate for TLS",
            hint=f"weft auth init --port {port} --host NAME makes one; or serve the pages on 127.0.0.1",
        )
    return TlsFiles(folder / tls.FOLDER / "server.pem", folder / tls.FOLDER / "server.key")
