"""Sessions of browsers: a one-time link or a token is exchanged for a cookie."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from weft.access.client import Client

MAX_SESSIONS: Final = 1000
IDLE_S: Final = 12 * 3600.0
"""A session ends after this long without a request."""
MAX_AGE_S: Final = 7 * 86400.0
MAX_LINKS: Final = 16
LINK_S: Final = 600.0
"""Seconds for which a one-time link is valid."""


@dataclass
class Session:
    """A browser that is logged in, and the client that calls the scheduler in its user's name."""

    id: str
    csrf: str
    user: str
    role: str
    client: Client = field(repr=False)
    key: str = ""
    """The id of the token that it logged in with; empty: a one-time link."""
    made_at: float = 0.0
    used_at: float = 0.0


class Sessions:
    """All sessions of one page. The oldest one goes when there are too many."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, user: str, role: str, client: Client, key: str = "") -> Session:
        while len(self._sessions) >= MAX_SESSIONS:
            self.end(min(self._sessions.values(), key=lambda each: each.used_at))
        now = self._now()
        made = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), user, role, client, key, now, now)
        self._sessions[made.id] = made
        return made

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie, unless it has expired."""
        found = self._sessions.get(cookie)
        if found is None:
            return None
        now = self._now()
        if now - found.used_at > IDLE_S or now - found.made_at > MAX_AGE_S:
            self.end(found)
            return None
        found.used_at = now
        return found

    def end(self, session: Session) -> None:
        if self._sessions.pop(session.id, None) is not None and session.key:
            session.client.close()


class OneTimeLinks:
    """Secrets that each open one session."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._issued: dict[str, float] = {}
        """Secrets, and when they expire."""

    def issue(self) -> str:
        while len(self._issued) >= MAX_LINKS:
            del self._issued[next(iter(self._issued))]
        made = secrets.token_urlsafe(32)
        self._issued[made] = self._now() + LINK_S
        return made

    def redeem(self, given: str) -> bool:
        """Return whether the secret is valid, and make it invalid."""
        for issued, until in list(self._issued.items()):
            if hmac.compare_digest(issued.encode(), given.encode("utf-8", "replace")):
                del self._issued[issued]
                return self._now() <= until
        return False


def same_secret(one: str, other: Any) -> bool:
    """Compare in a time that does not depend on the contents."""
    return isinstance(other, str) and hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))
