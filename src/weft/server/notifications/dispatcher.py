"""Delivers messages: one queue per target, in order, with retries. A target that fails delays no other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from weft.access.notify.delivery import is_expired, retry_delay_s
from weft.access.notify.outbox import Entry
from weft.node.engine.background import TaskSet
from weft.server.notifications.sender import Result, Sender

MAX_PENDING: Final = 1_000
"""Messages that wait for one target. More are dropped."""
MAX_SENDERS: Final = 4
"""Processes that deliver at once."""
log = logging.getLogger(__name__)


@dataclass
class TargetQueue:
    name: str
    entries: deque[Entry] = field(default_factory=deque)
    failures: int = 0
    """Attempts in a row that failed."""
    error: str = ""
    """Why the last attempt failed; empty: it did not."""
    sent: int = 0
    dropped: int = 0
    asked_s: float = 0.0
    """The delay that the receiver asked for."""
    worker: asyncio.Task[None] | None = None


class Dispatcher:
    def __init__(
        self,
        remove: Callable[[Entry], None],
        delay_s: Callable[[int, float], float] = retry_delay_s,
        open_sender: Callable[[], Sender] = Sender,
    ) -> None:
        self._remove, self._delay_s, self._open_sender = remove, delay_s, open_sender
        self._tasks = TaskSet()
        self._slots = asyncio.Semaphore(MAX_SENDERS)
        self.queues: dict[str, TargetQueue] = {}

    @property
    def pending(self) -> int:
        return sum(len(queue.entries) for queue in self.queues.values())

    def is_full(self, target: str) -> bool:
        """Return whether a message to this target must be dropped."""
        queue = self.queues.get(target)
        return queue is not None and len(queue.entries) >= MAX_PENDING

    def drop(self, target: str) -> None:
        """Count a message that was not taken."""
        queue = self.queues.setdefault(target, TargetQueue(target))
        queue.dropped += 1
        if queue.dropped & (queue.dropped - 1) == 0:
            log.warning("%d messages to %s were dropped: %d wait for it", queue.dropped, target, len(queue.entries))

    def add(self, entries: Iterable[Entry]) -> None:
        """Deliver these messages, which are on disk."""
        for entry in entries:
            queue = self.queues.setdefault(entry.target, TargetQueue(entry.target))
            queue.entries.append(entry)
            if queue.worker is None:
                queue.worker = self._tasks.spawn(self._work(queue))

    async def try_once(self, target: str, message: dict[str, object]) -> Result:
        """Deliver a message that is not queued, and return how it went."""
        async with self._slots:
            sender = self._open_sender()
            try:
                return await sender.send(target, message)
            finally:
                await sender.close()

    async def close(self) -> None:
        await self._tasks.close()

    async def _work(self, queue: TargetQueue) -> None:
        try:
            while queue.entries:
                await self._deliver(queue)
                if queue.entries:
                    await asyncio.sleep(self._delay_s(queue.failures, queue.asked_s))
        finally:
            queue.worker = None

    async def _deliver(self, queue: TargetQueue) -> None:
        """Deliver until an attempt fails or nothing is left."""
        async with self._slots:
            sender = self._open_sender()
            try:
                while queue.entries:
                    entry = queue.entries[0]
                    result = await sender.send(entry.target, entry.message)
                    if not self._record(queue, entry, result):
                        return
            finally:
                await sender.close()

    def _record(self, queue: TargetQueue, entry: Entry, result: Result) -> bool:
        """Note how an attempt went. Return whether the next message may be tried at once."""
        queue.asked_s = result.retry_s
        if result.ok:
            queue.sent, queue.failures, queue.error = queue.sent + 1, 0, ""
        else:
            queue.failures, queue.error = queue.failures + 1, result.why
            gives_up = result.permanent or is_expired(entry.created_at, time.time())
            log.warning(
                "message %s to %s %s: %s", entry.message.get("id"), entry.target,
                "is dropped" if gives_up else "is delayed", result.why,
            )  # fmt: skip
            if not gives_up:
                return False
            queue.dropped += 1
        queue.entries.popleft()
        self._remove(entry)
        return result.ok
