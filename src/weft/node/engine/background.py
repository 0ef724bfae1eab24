"""Background tasks: a component that starts tasks owns one `TaskSet` and closes it when it closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from weft.errors import WeftError

Work = Callable[[], Awaitable[None] | None]
log: Final = logging.getLogger(__name__)


class TaskSet:
    """The running tasks of one component. Failures are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task without waiting for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def every(self, seconds: float, work: Work, what: str) -> asyncio.Task[None]:
        """Repeat `work`, with a pause of `seconds` before each time. Log failures as `what` and continue."""
        return self.spawn(repeat(seconds, lambda: _attempt(work, what)))

    async def close(self) -> None:
        """Cancel the remaining tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed", exc_info=error)


async def repeat(seconds: float, work: Work) -> None:
    """Repeat `work`, with a pause of `seconds` before each time, until it fails."""
    while True:
        await asyncio.sleep(seconds)
        awaitable = work()
        if awaitable is not None:
            await awaitable


async def _attempt(work: Work, what: str) -> None:
    try:
        awaitable = work()
        if awaitable is not None:
            await awaitable
    except WeftError as error:
        log.warning("%s: %s", what, error)
    except Exception:
        log.exception("%s failed; retrying", what)
