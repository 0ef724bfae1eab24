"""The server's HTTP application: /metrics, /healthz and /readyz, on the loopback interface.

Uvicorn serves it inside the server's event loop. `startup` and `shutdown` are called directly: `Server.serve` would
install signal handlers and wake up ten times a second.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import uvicorn
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.errors import WeftError
from weft.server.controller import Controller
from weft.server.http.prometheus import Metrics

HOST: Final = "127.0.0.1"
REQUEST_TIMEOUT_S: Final = 10.0
"""The most seconds that a connection may take to send a request."""
MAX_HEAD_BYTES: Final = 8192
CLOSE_TIMEOUT_S: Final = 1
MESSAGES: Final = {404: "the pages are /metrics, /healthz and /readyz\n", 405: "these pages are read-only\n"}


class Web:
    """Serves the application on a port. `ready` is true while the scheduler accepts calls."""

    def __init__(self, controller: Controller, metrics: Metrics) -> None:
        self._controller, self._metrics = controller, metrics
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self.ready = False

    def application(self) -> Starlette:
        routes = [
            Route("/metrics", self._exposition),
            Route("/healthz", self._alive),
            Route("/readyz", self._readiness),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _refusal})

    async def open(self, port: int) -> int:
        """Listen, and return the port; 0 takes a free one."""
        self._socket = _bind(port)
        config = uvicorn.Config(
            self.application(), http=_TimedProtocol, ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, date_header=False, h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
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
        if self._controller.policy_failed:
            return PlainTextResponse(f"the policy failed: {self._controller.policy_failed}\n", 503)
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


def _bind(port: int) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise WeftError(f"--metrics-port {port}: {error.strerror}\n  choose another port") from None
    return found


async def _refusal(_: Request, error: Any) -> Response:
    return PlainTextResponse(MESSAGES.get(error.status_code, f"{error.detail}\n"), error.status_code, error.headers)
