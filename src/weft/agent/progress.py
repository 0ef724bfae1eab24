"""Progress reports of jobs on their way to the scheduler: the latest of each run, at most once per second."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from weft.engines.process.output.left_reports import unsent_report
from weft.wire.messages import AgentMessage, Progress
from weft.wire.runs import RunKey

SEND_PERIOD_S: Final = 1.0
MAX_REPORT_CHARS: Final = 64 << 10


class ProgressQueue:
    """The latest report of each run, sent or not. Times come from one monotonic clock."""

    def __init__(self, jobs: Path, is_known: Callable[[RunKey], bool]) -> None:
        self._jobs, self._is_known = jobs, is_known
        self._latest: dict[RunKey, dict[str, Any]] = {}
        self._unsent: dict[RunKey, None] = {}
        self._sent_at: dict[RunKey, float] = {}

    def add(self, body: dict[str, Any]) -> None:
        key = str(body["job"]), int(body["run"])
        if self._is_known(key):
            self._latest[key] = body
            self._unsent[key] = None

    def take_left(self, key: RunKey) -> None:
        """Add the report of a run that has ended while this worker was away."""
        if left := unsent_report(self._jobs, *key):
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
