"""How a run is made to end: decided here, without clock or processes, and done by the shim."""

from __future__ import annotations

from typing import Final, Literal

Act = Literal["warn", "term", "kill"]
"""Warn: preempt file, and SIGTERM to the leader alone. Term: SIGTERM to the whole tree. Kill: SIGKILL to it."""

WARNED: Final = frozenset({"preempted", "moved", "lease-ended"})
"""Reasons for which a run may first save its work; for others the whole tree is told at once."""
NO_FILE: Final[dict[Act, str]] = {"warn": "preempted", "term": "cancelled", "kill": "cancelled"}
"""What a stop that could not be written down says of its reason."""
KILL_AGAIN_S: Final = 0.5


def first_step(why: str) -> Act:
    return "warn" if why in WARNED else "term"


class StopEscalation:
    """What to do with a run that works, as time passes and stop requests come. Times are of one steady clock."""

    def __init__(self, now: float, time_limit_s: float | None, grace_s: float) -> None:
        self.why = ""
        self._grace_s = grace_s
        self._limit = None if time_limit_s is None else now + time_limit_s
        self._kill_at: float | None = None
        self._told: Act | None = None

    def ask(self, now: float, why: str, grace_s: float) -> Act | None:
        """A stop request. A later one can only make it end sooner, or tell the whole tree too."""
        act = first_step(why)
        if not self.why:
            self.why = why
        if grace_s <= 0:
            self._kill_at = now
            return self.due(now)
        self._kill_at = now + grace_s if self._kill_at is None else min(self._kill_at, now + grace_s)
        if self._told == act or self._told == "term" or self._told == "kill":
            return None
        self._told = act
        return act

    def due(self, now: float) -> Act | None:
        """What has become due by now; a kill becomes due again until nobody is left."""
        if self._kill_at is not None and now >= self._kill_at:
            self._told, self._kill_at = "kill", now + KILL_AGAIN_S
            return "kill"
        if self._limit is not None and now >= self._limit:
            self._limit = None
            return self.ask(now, "timeout", self._grace_s)
        return None

    def next_at(self) -> float | None:
        """When something becomes due by itself."""
        times = [at for at in (self._kill_at, self._limit) if at is not None]
        return min(times, default=None)
