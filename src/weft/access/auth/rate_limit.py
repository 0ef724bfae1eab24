"""A limit on failed authentications, by host."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_FAILURES: Final = 20
WINDOW_S: Final = 60.0
MAX_HOSTS: Final = 10_000


class FailureLimiter:
    """Blocks a host for a while after MAX_FAILURES wrong tokens within WINDOW_S, so that tokens cannot be guessed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """The start of the window and the number of failures, by host."""

    def blocked_s(self, peer: str) -> float:
        """Return how long the host stays blocked; 0 if it is not."""
        since, count = self._failures.get(peer, (0.0, 0))
        left_s = since + WINDOW_S - self._now()
        return left_s if count >= MAX_FAILURES and left_s > 0 else 0.0

    def count(self, peer: str) -> None:
        """Count a failure of this host."""
        since, count = self._failures.pop(peer, (self._now(), 0))
        if self._now() - since > WINDOW_S:
            since, count = self._now(), 0
        self._failures[peer] = (since, count + 1)
        while len(self._failures) > MAX_HOSTS:
            self._failures.popitem(last=False)


def host_of(peer: str) -> str:
    """Return the host of a gRPC peer such as ipv4:192.0.2.7:51234 or ipv6:%5B::1%5D:51234."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
