"""Progress reports of jobs on their way to the scheduler: the latest of each run, at most once per second."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from weft.wire.messages import AgentMessage, Progress
from weft.wire.runs import RunKey

SEND_PERIOD_S: Final = 1.0
MAX_REPORT_CHARS: Final = 64 << 10


class ProgressQueue:
    """The latest unsent report of each run. Times come from one monotonic clock."""

    def __init__(self, is_known: Callable[[RunKey], bool]) -> None:
        self._is_known = is_known
        self._unsent: dict[RunKey, dict[str, Any]] = {}
        self._sent_at: dict[RunKey, float] = {}

    def add(self, body: dict[str, Any]) -> None:
        key = str(body["job"]), int(body["run"])
        if self._is_known(key):
            self._unsent[key] = body

    def due_messages(self, now: float) -> list[AgentMessage]:
        """Return the messages to send now."""
        ready = [key for key in self._unsent if now - self._sent_at.get(key, -SEND_PERIOD_S) >= SEND_PERIOD_S]
        return [message for key in ready if (message := self.pop(key, now))]

    def pop(self, key: RunKey, now: float) -> AgentMessage | None:
        """Remove and return the unsent report of this run, whether or not it is due."""
        body = self._unsent.pop(key, None)
        if body is None:
            return None
        self._sent_at[key] = now
        text = json.dumps(body)
        return (
            AgentMessage(progress=Progress(job=key[0], run=key[1], json=text)) if len(text) < MAX_REPORT_CHARS else None
        )

    def forget(self, key: RunKey) -> None:
        self._unsent.pop(key, None)
        self._sent_at.pop(key, None)
