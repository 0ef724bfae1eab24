"""Replicas that fail leave the rotation: outlier detection in the manner of Envoy, with probes.

Two rules take a replica out. A request that it did not answer makes it *suspect*: it gets no further request until it
answers a probe. Several errors or failures in a row *eject* it for a time that grows, as long as most replicas are in.
Nothing here reads a clock or a socket.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

ERRORS_IN_ROW: Final = 5
REQUESTS_FAULT: Final = frozenset((501, 505))
"""Errors that say nothing about the replica: a method or a version that it does not know."""
EJECTION_S: Final = 10.0
"""The time of the first ejection; the second takes twice as long, and so on."""
MAX_EJECTION_S: Final = 300.0
"""The longest ejection. A replica that has been in for this long begins with `EJECTION_S` again."""
MAX_OUT_PART: Final = 0.5
"""No replica is ejected if more than this part of them would be out: the others could not take the load."""


class Health:
    """The answers and failures of one replica, and whether it gets requests."""

    __slots__ = (
        "answered", "ejected_until_s", "ejections", "errors", "failures", "in_row", "last_error", "returned_s",
        "suspect",
    )  # fmt: skip

    def __init__(self) -> None:
        self.answered = self.errors = self.failures = 0
        """Whole answers, those of them with a status from 500 up, and requests without a whole answer."""
        self.last_error = ""
        self.in_row = 0
        """Errors and failures since the last good answer."""
        self.suspect = False
        self.ejected_until_s: float | None = None
        self.ejections = 0
        self.returned_s = 0.0

    def is_out(self) -> bool:
        """Return whether the replica gets no requests."""
        return self.suspect or self.ejected_until_s is not None

    def note_answer(self, status: int) -> None:
        """Count a whole answer."""
        self.answered += 1
        if status < 500:
            self.in_row = 0
        else:
            self.errors += 1
            self.in_row += status not in REQUESTS_FAULT
            self.last_error = f"answered {status}"

    def note_failure(self) -> None:
        """Count a request without a whole answer. Requests that fail together count once in the row."""
        self.failures += 1
        self.in_row += not self.suspect

    def eject(self, now_s: float) -> None:
        """Take the replica out for a time."""
        self.ejections = self.ejections + 1 if now_s - self.returned_s < MAX_EJECTION_S else 1
        self.ejected_until_s = now_s + min(EJECTION_S * self.ejections, MAX_EJECTION_S)

    def end_ejection(self) -> None:
        """Let the replica take requests again. One more error in a row takes it out for longer."""
        self.returned_s, self.ejected_until_s = self.ejected_until_s or 0.0, None


def is_outlier(replica: Health, replicas: Collection[Health]) -> bool:
    """Return whether a replica, one of these, is to be ejected."""
    if replica.in_row < ERRORS_IN_ROW or replica.ejected_until_s is not None:
        return False
    out = 1 + sum(each.is_out() for each in replicas if each is not replica)
    return out <= MAX_OUT_PART * len(replicas)
