"""Access to the pages: by the name of the host on loopback, by a token elsewhere."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.access.auth.rate_limit import FailureLimiter
from weft.access.auth.tokens import Tokens
from weft.errors import NotPermitted

OPEN_PAGES: Final = ("/healthz",)
"""Pages without a token, for load balancers: they show nothing but that the server is there."""
MAY_READ: Final = ("admin", "user")
log = logging.getLogger(__name__)


class HostCheck:
    """Refuses requests that name another host: a web page could make a browser send them, by DNS rebinding.

    An address needs no name server, so it is always allowed.
    """

    def __init__(self, app: ASGIApp, host: str, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {"localhost", socket.gethostname().lower(), host.lower(), *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(Headers(scope=scope).get("host", "")):
            await PlainTextResponse("this host name is not served here\n", 421)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        return not host or name.lower() in self._names or _is_address(name)


class TokenCheck:
    """Requires a token of a user or admin, as the calls of clients do."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens
        self._limiter = FailureLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._check(scope) if scope["type"] == "http" and scope["path"] not in OPEN_PAGES else None
        await (refusal or self._app)(scope, receive, send)

    def _check(self, scope: Scope) -> Response | None:
        peer = scope["client"][0] if scope.get("client") else ""
        if wait_s := self._limiter.blocked_s(peer):
            return PlainTextResponse(f"too many wrong tokens; try again in {wait_s:.0f} s\n", 429)
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise NotPermitted("no token")
            who = self._tokens.verify(token.strip())
        except NotPermitted as error:
            self._limiter.count(peer)
            log.warning("refused %s: %s", peer, str(error).partition("\n")[0])
            text = "send a token: Authorization: Bearer TOKEN; weft auth token makes one\n"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        if who.role not in MAY_READ:
            return PlainTextResponse(f"a token of role {who.role} may not read this\n", 403)
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
