"""Hands on what jobs say of their progress: the latest of each, at most once a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from weft.wire.messages import AgentMessage, Progress
from weft.wire.runs import RunKey

PERIOD_S: Final = 1.0
LARGEST: Final = 64 << 10


class Reports:
    """A report says all that is known, so only the last counts. Times are of one steady clock."""

    def __init__(self, is_known: Callable[[RunKey], bool]) -> None:
        self._is_known = is_known
        self._fresh: dict[RunKey, dict[str, Any]] = {}
        self._sent_at: dict[RunKey, float] = {}

    def take(self, body: dict[str, Any]) -> None:
        key = str(body["job"]), int(body["run"])
        if self._is_known(key):
            self._fresh[key] = body

    def due(self, now: float) -> list[AgentMessage]:
        """What is to be sent now."""
        ready = [key for key in self._fresh if now - self._sent_at.get(key, -PERIOD_S) >= PERIOD_S]
        return [message for key in ready if (message := self.last(key, now))]

    def last(self, key: RunKey, now: float) -> AgentMessage | None:
        """What has not been sent of this run, whether or not it is time."""
        body = self._fresh.pop(key, None)
        if body is None:
            return None
        self._sent_at[key] = now
        text = json.dumps(body)
        return AgentMessage(progress=Progress(job=key[0], run=key[1], json=text)) if len(text) < LARGEST else None

    def forget(self, key: RunKey) -> None:
        self._fresh.pop(key, None)
        self._sent_at.pop(key, None)
