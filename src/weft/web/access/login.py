"""Logging in: a one-time link for the user who started the page, or a token of a user of the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from weft.access.auth.identity import Caller
from weft.access.auth.rate_limit import FailureLimiter
from weft.access.auth.tokens import Tokens
from weft.access.client import Client
from weft.errors import JournalError, NotAuthenticated, NotPermitted
from weft.web.access.sessions import OneTimeLinks, Session, Sessions, same_secret

MAX_BODY_BYTES: Final = 4096
MAY_READ: Final = ("admin", "user")
ENTER: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Weft</title>
<meta http-equiv="refresh" content="0;url=/"></head><body><p><a href="/">Continue to Weft</a></p></body></html>
"""
"""Leads to the page. A redirect would not do: after a link on another site, the browser would not send the cookie."""
log = logging.getLogger(__name__)


class Login:
    """Opens sessions. With `tokens`, users log in with their tokens; without, by one-time links alone."""

    def __init__(
        self, owner: str, client: Client, connect: Callable[[str], Client], tokens: Tokens | None, *, secure: bool,
        key: str = "",
    ) -> None:  # fmt: skip
        self._owner, self._client, self._connect = owner, client, connect
        self._tokens, self._secure = tokens, secure
        self._key = key
        """The secret with which `weft web` asks for another link; empty: it cannot."""
        self.sessions, self.links = Sessions(), OneTimeLinks()
        self._limiter = FailureLimiter()
        self.cookie = "__Host-weft" if secure else "weft"

    @property
    def with_tokens(self) -> bool:
        return self._tokens is not None

    def name_cookie(self, port: int) -> None:
        """Name the cookie after the port: browsers send the cookies of all ports of a host."""
        self.cookie = f"{'__Host-' if self._secure else ''}weft-{port}"

    # ---- sessions

    def session(self, request: Request) -> Session:
        found = self.sessions.find(request.cookies.get(self.cookie, ""))
        if found is None or not self.is_valid(found):
            raise NotAuthenticated("you are not logged in")
        return found

    def is_valid(self, session: Session) -> bool:
        """Return whether a session still is one. Its token may be revoked meanwhile."""
        if self.sessions.find(session.id) is None:
            return False
        if session.key and self._tokens is not None and not self._tokens.is_valid(session.key):
            self.sessions.end(session)
            return False
        return True

    # ---- pages

    async def by_link(self, request: Request) -> Response:
        """Open a session for a one-time link."""
        peer = _peer(request)
        if refusal := self._blocked(peer):
            return refusal
        if not self.links.redeem(request.query_params.get("token", "")):
            self._limiter.count(peer)
            log.warning("refused a link from %s", peer)
            return RedirectResponse("/login?expired=1", 303)
        return self._enter(self.sessions.create(self._owner, "admin", self._client))

    async def by_token(self, request: Request) -> Response:
        """Open a session for a token that a form sends."""
        peer = _peer(request)
        if refusal := self._blocked(peer):
            return refusal
        if self._tokens is None:
            return PlainTextResponse("this page is opened by a link: weft web prints one\n", 404)
        body = await read_body(request)
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        try:
            who = await self._verify(self._tokens, token)
        except NotPermitted as error:
            self._limiter.count(peer)
            log.warning("refused %s: %s", peer, str(error).partition("\n")[0])
            return RedirectResponse("/login?wrong=1", 303)
        if who.role not in MAY_READ:
            return RedirectResponse("/login?role=1", 303)
        log.info("%s logged in as %s", peer, who.user)
        return self._enter(self.sessions.create(who.user, who.role, self._connect(token), who.key))

    async def _verify(self, tokens: Tokens, token: str) -> Caller:
        """Return the user of a token. If it is not known, look again: another process may have made it just now."""
        try:
            return tokens.verify(token)
        except NotPermitted:
            if not tokens.is_remote:
                raise
        with suppress(JournalError):  # the database is away: what is known counts
            await asyncio.to_thread(tokens.refresh)
        return tokens.verify(token)

    async def leave(self, request: Request) -> Response:
        session = self.session(request)
        if not same_secret(session.csrf, request.headers.get("x-csrf-token")):
            raise NotPermitted("the request has no valid CSRF token\n  reload the page")
        self.sessions.end(session)
        done = PlainTextResponse("logged out\n")
        done.delete_cookie(self.cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return done

    async def new_link(self, request: Request) -> Response:
        """Return another one-time link, for a process of the same user that knows the key."""
        peer = _peer(request)
        if refusal := self._blocked(peer):
            return refusal
        if not self._key or not same_secret(self._key, request.headers.get("x-weft-key")):
            self._limiter.count(peer)
            raise NotAuthenticated("the key is wrong")
        return PlainTextResponse(self.links.issue())

    def _blocked(self, peer: str) -> Response | None:
        wait_s = self._limiter.blocked_s(peer)
        return PlainTextResponse(f"too many attempts; try again in {wait_s:.0f} s\n", 429) if wait_s else None

    def _enter(self, session: Session) -> Response:
        done = HTMLResponse(ENTER)
        done.set_cookie(self.cookie, session.id, path="/", secure=self._secure, httponly=True, samesite="strict")
        return done


async def read_body(request: Request) -> bytes:
    """Return the body of a request. Raise if it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise NotPermitted("the request is too large")
    return body


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""
