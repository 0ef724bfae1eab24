"""Progress reports of jobs on their way to the scheduler: the latest of each run, at most once per second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from weft.access.wire.messages import AgentMessage, Progress
from weft.access.wire.runs import RunKey
from weft.node.engine.output.left_reports import is_later, unsent_report

SEND_PERIOD_S: Final = 1.0
MAX_REPORT_CHARS: Final = 64 << 10


class ProgressQueue:
    """The latest report of each run, sent or not. Times come from one monotonic clock."""

    def __init__(self, jobs: Path, is_known: Callable[[RunKey], bool]) -> None:
        self._jobs, self._is_known = jobs, is_known
        self._latest: dict[RunKey, dict[str, Any]] = {}
        self._unsent: dict[RunKey, None] = {}
        self._sent_at: dict[RunKey, float] = {}
        self._came_at: dict[RunKey, float] = {}
        """When the latest report of each run came, as files have their times."""

    def add(self, body: dict[str, Any]) -> None:
        key = str(body["job"]), int(body["run"])
        if self._is_known(key):
            self._latest[key] = body
            self._unsent[key] = None
            self._came_at[key] = time.time()

    def take_left(self, key: RunKey) -> None:
        """Add the report that an ended run has left while this worker was away, unless a later one came."""
        left = unsent_report(self._jobs, *key)
        if left and is_later(self._jobs, key[0], self._came_at.get(key, 0.0)):
            self.add(left)

    def repeat(self) -> Collection[RunKey]:
        """Return the runs with reports, all of which are due again: the next scheduler may not know them."""
        self._unsent = dict.fromkeys(self._latest)
        self._sent_at.clear()
        return self._unsent.keys()

    def due_messages(self, now: float) -> list[AgentMessage]:
        """Return the messages to send now."""
        ready = [key for key in self._unsent if now - self._sent_at.get(key, -SEND_PERIOD_S) >= SEND_PERIOD_S]
        return [message for key in ready if (message := self.pop(key, now))]

    def pop(self, key: RunKey, now: float) -> AgentMessage | None:
        """Return the unsent report of this run, whether or not it is due. It counts as sent."""
        if key not in self._unsent:
            return None
        del self._unsent[key]
        self._sent_at[key] = now
        text = json.dumps(self._latest[key])
        return (
            AgentMessage(progress=Progress(job=key[0], run=key[1], json=text)) if len(text) < MAX_REPORT_CHARS else None
        )

    def forget(self, key: RunKey) -> None:
        self._latest.pop(key, None)
        self._unsent.pop(key, None)
        self._sent_at.pop(key, None)
        self._came_at.pop(key, None)
