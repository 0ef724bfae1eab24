"""The rules of delivery: what counts as failed for good, when to try again, when to give up."""

from __future__ import annotations

from typing import Final

FIRST_DELAY_S: Final = 5.0
DELAY_GROWTH: Final = 3.0
MAX_DELAY_S: Final = 600.0
MAX_AGE_S: Final = 86400.0
"""The age at which a message that could not be delivered is dropped."""


class NotDelivered(Exception):
    """A message could not be delivered. `permanent`: another attempt cannot succeed."""

    def __init__(self, why: str, *, permanent: bool = False, retry_s: float = 0.0) -> None:
        super().__init__(why)
        self.permanent = permanent
        self.retry_s = retry_s
        """The delay that the receiver asks for; 0: none."""


def retry_delay_s(failures: int, asked_s: float = 0.0) -> float:
    """Return the delay after this many failures in a row; longer if the receiver asks for it."""
    growing_s = FIRST_DELAY_S * DELAY_GROWTH ** min(max(failures - 1, 0), 20)
    return min(max(growing_s, asked_s), MAX_DELAY_S)


def is_expired(created_at: float, now: float) -> bool:
    return now - created_at > MAX_AGE_S


def http_problem(status: int, retry_after: str | None = None) -> NotDelivered | None:
    """Return the problem of an HTTP answer; None: the message is delivered.

    A receiver that is busy or broken may take the message later. One that refuses it, or redirects, will not.
    """
    if 200 <= status < 300:
        return None
    asked_s = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
    temporary = status in (408, 425, 429) or status >= 500
    return NotDelivered(f"the receiver answered {status}", permanent=not temporary, retry_s=asked_s)
