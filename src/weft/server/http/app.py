"""The server's HTTP application: /metrics, /healthz and /readyz.

On the loopback interface it needs no token. On others it uses TLS, and every page but /healthz needs a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from weft.access.auth.tokens import Tokens
from weft.access.http.access import HostCheck, TokenCheck
from weft.access.http.listener import Listener, TlsFiles, bind, tls_files
from weft.server.controller import Controller
from weft.server.http.prometheus import Metrics

HOST: Final = "127.0.0.1"
METRICS_PORT: Final = "--metrics-port"
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
        self._listener: Listener | None = None
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
        tls = TlsFiles(self._auth.certificate, self._auth.key) if self._auth else None
        bound = bind(self._host, port, port_flag=METRICS_PORT, host_flag="--metrics-host")
        self._listener = Listener(self.application(), tls)
        return await self._listener.open(bound)

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()

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


def auth_for(host: str, port: int, folder: Path, tokens: Tokens) -> Auth | None:
    """Return what the pages need at this address: nothing on loopback, else the server's certificate and tokens."""
    files = tls_files(host, port, folder, "--metrics-host")
    return None if files is None else Auth(tokens, files.certificate, files.key)


async def _refusal(_: Request, error: Any) -> Response:
    return PlainTextResponse(MESSAGES.get(error.status_code, f"{error.detail}\n"), error.status_code, error.headers)
