"""The rule of probes (pure): when a replica counts as ready, and when as broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from weft.model import Health, Seconds

FIRST_WAIT_S: Final = 0.05
MAX_START_WAIT_S: Final = 1.0
"""A replica that starts is probed often at first: requests may wait for it."""
WAIT_GROWTH: Final = 1.3
Change = Literal["ready", "unready"]


@dataclass
class ReplicaHealth:
    """The results of the probes of one run."""

    health: Health
    since: Seconds
    """The start of the run."""
    ready: bool = False
    broken: bool = False
    """True once the replica was reported as unready: its run is stopped, and nothing more is reported."""
    failed: int = 0
    """Probes that failed in a row."""
    probes: int = 0

    def observe(self, now: Seconds, answered: bool) -> tuple[Change, str] | None:
        """Take the result of a probe; return a change of the replica with its reason, if there is one."""
        self.probes += 1
        self.failed = 0 if answered else self.failed + 1
        if self.broken:
            return None
        if answered:
            if self.ready:
                return None
            self.ready = True
            return "ready", ""
        limit = self.health
        if self.ready and self.failed >= limit.fails:
            self.broken = True
            return "unready", f"{limit.fails} probes of {limit.path} failed in a row"
        if not self.ready and now - self.since >= limit.start_within_s:
            self.broken = True
            return "unready", f"{limit.path} did not answer within {limit.start_within_s:g} s of the start"
        return None

    @property
    def wait_s(self) -> float:
        """The time until the next probe."""
        if self.ready:
            return self.health.every_s if not self.failed else min(self.health.every_s, MAX_START_WAIT_S)
        return min(FIRST_WAIT_S * WAIT_GROWTH ** min(self.probes, 50), MAX_START_WAIT_S, self.health.every_s)
