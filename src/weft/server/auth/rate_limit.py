"""How often somebody was refused lately, by where they come from."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MOST: Final = 20
WINDOW_S: Final = 60.0
MOST_PEERS: Final = 10_000


class FailureLimiter:
    """At most so many wrong tokens in a minute are answered as such; after that, there is nothing to be learnt."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Since when, and how many."""

    def blocked_s(self, peer: str) -> float:
        """For how long nothing is taken from there; 0: it may try."""
        since, count = self._seen.get(peer, (0.0, 0))
        left_s = since + WINDOW_S - self._now()
        return left_s if count >= MOST and left_s > 0 else 0.0

    def count(self, peer: str) -> None:
        since, count = self._seen.pop(peer, (self._now(), 0))
        if self._now() - since > WINDOW_S:
            since, count = self._now(), 0
        self._seen[peer] = (since, count + 1)
        while len(self._seen) > MOST_PEERS:
            self._seen.popitem(last=False)


def host_of(peer: str) -> str:
    """Of what gRPC calls ipv4:192.0.2.7:51234 or ipv6:%5B::1%5D:51234."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
