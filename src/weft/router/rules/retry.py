"""The rule that says whether a request whose replica failed goes to another replica."""

from __future__ import annotations

from typing import Final, Literal, get_args

RetryRule = Literal["never", "connect", "safe", "unanswered"]
RETRY_RULES: Final[tuple[RetryRule, ...]] = get_args(RetryRule)
IDEMPOTENT: Final = frozenset((b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"))
"""Methods that may be executed twice (RFC 9110, 9.2.2)."""
MAX_SENDS: Final = 3
"""The number of replicas that may read a request. Refused connections do not count."""


def may_send_again(rule: RetryRule, method: bytes, *, sends: int, answered: bool, has_body: bool) -> bool:
    """Return whether another replica may get the request.

    `sends` counts the replicas to which bytes of the request went, `answered` is true once the client got a byte, and
    `has_body` is true while the router holds everything that it has read of the body.
    """
    if answered or not has_body or rule == "never":
        return False
    if sends == 0:
        return True
    if sends >= MAX_SENDS or rule == "connect":
        return False
    return rule == "unanswered" or method in IDEMPOTENT
