"""The stop escalation of a run: which signal is due when. Pure; the shim sends the signals."""

from __future__ import annotations

from typing import Final, Literal

StopStep = Literal["signal", "warn", "term", "kill"]
"""signal: the user's signal, ahead of the time limit; warn: preempt file, and SIGTERM (or the user's signal) to the
leader only; term: SIGTERM to the whole tree; kill: SIGKILL to the tree."""

TIMEOUT: Final = "timeout"
NODE_STOPPED: Final = "node-stopped"
"""The reason of a stop because the node leaves."""
WARN_FIRST: Final = frozenset({"preempted", "moved", "reclaimed", "lease-ended", NODE_STOPPED})
"""Reasons that let a run save its work first; for others the whole tree gets SIGTERM at once."""
DEFAULT_REASON: Final[dict[StopStep, str]] = {"warn": "preempted", "term": "cancelled", "kill": "cancelled"}
"""The reason to record for a stop that arrives as a signal, without a stop file."""
KILL_RETRY_S: Final = 0.5


def first_step(why: str) -> StopStep:
    return "warn" if why in WARN_FIRST else "term"


class StopEscalation:
    """The escalation state of one run. All times come from one monotonic clock."""

    def __init__(
        self, now: float, time_limit_s: float | None, grace_s: float, signal_lead_s: float | None = None
    ) -> None:
        self.why = ""
        self._grace_s = grace_s
        self._limit = None if time_limit_s is None else now + time_limit_s
        self._signal_at = (
            None if self._limit is None or signal_lead_s is None else max(self._limit - signal_lead_s, now)
        )
        self._kill_at: float | None = None
        self._last_step: StopStep | None = None

    def request_stop(self, now: float, why: str, grace_s: float) -> StopStep | None:
        """Return the step for a stop request. A later request may only shorten the grace or extend to the tree."""
        step = first_step(why)
        if not self.why:
            self.why = why
        if grace_s <= 0:
            self._kill_at = now
            return self.due_step(now)
        self._kill_at = now + grace_s if self._kill_at is None else min(self._kill_at, now + grace_s)
        if self._last_step == step or self._last_step == "term" or self._last_step == "kill":
            return None
        self._last_step = step
        return step

    def due_step(self, now: float) -> StopStep | None:
        """Return the step that is due, if any. A kill stays due at intervals until the run has ended."""
        if self._kill_at is not None and now >= self._kill_at:
            self._last_step, self._kill_at = "kill", now + KILL_RETRY_S
            return "kill"
        if self._limit is not None and now >= self._limit:
            self._limit = None
            return self.request_stop(now, TIMEOUT, self._grace_s)
        if self._signal_at is not None and now >= self._signal_at:
            self._signal_at = None
            return None if self.why else "signal"
        return None

    def postpone(self, seconds: float) -> None:
        """Move the time limit and the signal ahead of it: the run was suspended meanwhile."""
        self._limit = None if self._limit is None else self._limit + seconds
        self._signal_at = None if self._signal_at is None else self._signal_at + seconds

    def next_due_at(self) -> float | None:
        """Return when the next step is due."""
        times = [at for at in (self._kill_at, self._limit, self._signal_at) if at is not None]
        return min(times, default=None)
