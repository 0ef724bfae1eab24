"""Checks of every request before a page sees it, and the headers of every answer.

The host is checked because a web page elsewhere can point one of its names at this address (DNS rebinding). The origin
is checked because a page elsewhere can make a browser send requests with this page's cookie. The referrer policy is
`same-origin`: under `no-referrer`, browsers send forms with `Origin: null`, and no user could log in with a token.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE: Final = ("GET", "HEAD")
OWN_SITES: Final = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests of this page, and of an address that a user types."""


class SecurityHeaders:
    """Adds the headers that restrict what a browser does with an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OriginCheck:
    """Refuses changes that another site asks for, and reads of the API by another site."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := _refusal(scope)):
            await PlainTextResponse(refusal, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _refusal(scope: Scope) -> str:
    """Return why a request is refused; empty: it is not."""
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    own = f"{scope['scheme']}://{headers.get('host', '')}".lower()
    if scope["method"] in SAFE:
        from_elsewhere = site is not None and site not in OWN_SITES and scope["path"].startswith("/api/")
        return "another site may not read this\n" if from_elsewhere else ""
    if site is not None and site not in OWN_SITES:
        return "another site may not change anything here\n"
    if origin is None:
        return "a change needs the header Origin, as browsers send it\n"
    return "" if origin.lower() == own else "another site may not change anything here\n"
