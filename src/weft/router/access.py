"""Checks the tokens of requests where other machines can reach the router."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from weft.errors import NotPermitted
from weft.router.rules.refusals import Refusal

KNOWN_S: Final = 2.0
"""A token that was right is not looked up again for this time, so a revoked one stops working soon."""
MAX_KNOWN: Final = 10_000
NO_TOKEN: Final = Refusal(401, "no_token", "send a token: Authorization: Bearer TOKEN; weft auth token makes one")


class Limiter(Protocol):
    """Blocks hosts that guess tokens."""

    def blocked_s(self, peer: str) -> float: ...

    def count(self, peer: str) -> None: ...


class TokenGuard:
    """Lets requests pass that carry a token. `verify` raises NotPermitted for a token that is not valid."""

    def __init__(
        self, verify: Callable[[str], object], limiter: Limiter, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._verify, self._limiter, self._now = verify, limiter, now
        self._known: dict[bytes, float] = {}

    def __call__(self, authorization: bytes | None, peer: str) -> Refusal | None:
        if authorization is not None and self._known.get(authorization, 0.0) > self._now():
            return None
        if wait_s := self._limiter.blocked_s(peer):
            return Refusal(429, "too_many_wrong_tokens", "too many wrong tokens", int(wait_s) + 1)
        scheme, _, token = (authorization or b"").partition(b" ")
        try:
            if scheme.lower() != b"bearer":
                raise NotPermitted("no token")
            self._verify(token.strip().decode("ascii", "replace"))
        except NotPermitted:
            self._limiter.count(peer)
            return NO_TOKEN
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        if authorization is not None:
            self._known[authorization] = self._now() + KNOWN_S
        return None
