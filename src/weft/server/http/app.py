"""The server's HTTP application: /metrics, /healthz and /readyz.

On the loopback interface it needs no token. On others it uses TLS, and every page but /healthz needs a token.

Uvicorn serves it inside the server's event loop. `startup` and `shutdown` are called directly: `Server.serve` would
install signal handlers and wake up ten times a second.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from errno import EADDRNOTAVAIL
from pathlib import Path
from typing import Any, Final

import uvicorn
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.endpoints.addresses import is_loopback
from weft.errors import InputError, WeftError
from weft.server.auth import tls
from weft.server.auth.tokens import Tokens
from weft.server.controller import Controller
from weft.server.http.access import HostCheck, TokenCheck
from weft.server.http.prometheus import Metrics

HOST: Final = "127.0.0.1"
METRICS_PORT: Final = "--metrics-port"
REQUEST_TIMEOUT_S: Final = 10.0
"""The most seconds that a connection may take to send a request."""
MAX_HEAD_BYTES: Final = 8192
CLOSE_TIMEOUT_S: Final = 1
MESSAGES: Final = {404: "the pages are /metrics, /healthz and /readyz\n", 405: "these pages are read-only\n"}


@dataclass(frozen=True)
class Auth:
    """Tokens and TLS files that protect the pages where other machines can reach them."""

    tokens: Tokens
    certificate: Path
    key: Path


class Web:
    """Serves the application on a port. `ready` is true while the scheduler accepts calls."""

    def __init__(self, controller: Controller, metrics: Metrics, *, host: str = HOST, auth: Auth | None = None) -> None:
        self._controller, self._metrics = controller, metrics
        self._host, self._auth = host, auth
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self.ready = False

    def application(self) -> ASGIApp:
        routes = [
            Route("/metrics", self._exposition),
            Route("/healthz", self._alive),
            Route("/readyz", self._readiness),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _refusal})
        return HostCheck(app, self._host) if self._auth is None else TokenCheck(app, self._auth.tokens)

    async def open(self, port: int) -> int:
        """Listen, and return the port; 0 takes a free one."""
        self._socket = _bind(self._host, port)
        config = uvicorn.Config(
            self.application(), http=_TimedProtocol, ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, date_header=False, h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
            ssl_certfile=self._auth.certificate if self._auth else None,
            ssl_keyfile=self._auth.key if self._auth else None,
        )  # fmt: skip
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup([self._socket])
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        if self._server is not None and self._socket is not None:
            await self._server.shutdown([self._socket])
            self._server = None

    async def _exposition(self, _: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _alive(self, _: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readiness(self, _: Request) -> Response:
        if not self.ready:
            return PlainTextResponse("starting or stopping\n", 503)
        if self._controller.policy_error:
            return PlainTextResponse(f"the policy failed: {self._controller.policy_error}\n", 503)
        return PlainTextResponse("ready\n")


class _TimedProtocol(H11Protocol):
    """Closes a connection that sends no request: Uvicorn alone would keep it for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_idle(self) -> None:
        if self.cycle is None:
            self.transport.close()


def auth_for(host: str, port: int, folder: Path, tokens: Tokens) -> Auth | None:
    """Return what the pages need at this address: nothing on loopback, else the server's certificate and tokens."""
    if is_loopback(host):
        return None
    if tls.load(folder) is None:
        raise InputError(
            f"--metrics-host: {host} can be reached from other machines, and there is no certificate for TLS",
            hint=f"weft auth init --port {port} --host NAME makes one; or serve the pages on 127.0.0.1",
        )
    return Auth(tokens, folder / tls.FOLDER / "server.pem", folder / tls.FOLDER / "server.key")


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise WeftError(f"--metrics-host {host}: {error.strerror}\n  give an address of this machine") from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        what, hint = f"{METRICS_PORT} {port}", "choose another port"
        if error.errno == EADDRNOTAVAIL:
            what, hint = f"--metrics-host {host}", "give an address of this machine"
        raise WeftError(f"{what}: {error.strerror}\n  {hint}") from None
    return found


async def _refusal(_: Request, error: Any) -> Response:
    return PlainTextResponse(MESSAGES.get(error.status_code, f"{error.detail}\n"), error.status_code, error.headers)
