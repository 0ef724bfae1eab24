"""Parts of logs that agents were asked for, and the answers: each is asked for once, and whoever asked waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from weft.engines.process.output.logs import LogPart
from weft.model import JobId
from weft.wire import messages as m

PATIENCE_S: Final = 10.0
"""An agent that takes longer is as good as gone."""
MOST_ASKED: Final = 1000
"""At a time, of all agents."""


class LogRequests:
    def __init__(self) -> None:
        self._last = 0
        self._asked: dict[int, tuple[int, asyncio.Future[LogPart | None]]] = {}
        self._room = asyncio.Semaphore(MOST_ASKED)

    async def pull(
        self, conn: int, send: Callable[[m.SchedulerMessage], bool], job: JobId, run: int, offset: int, lines: int
    ) -> LogPart | None:
        """None: it was not to be had."""
        async with self._room:
            self._last += 1
            asked = self._last
            answer: asyncio.Future[LogPart | None] = asyncio.get_running_loop().create_future()
            self._asked[asked] = conn, answer
            read = m.ReadLog(id=asked, job=job, run=run, offset=offset, lines=lines)
            try:
                if not send(m.SchedulerMessage(read=read)):
                    return None
                async with asyncio.timeout(PATIENCE_S):
                    return await answer
            except TimeoutError:
                return None
            finally:
                del self._asked[asked]

    def answered(self, conn: int, part: m.LogPart) -> None:
        """What was not asked of this connection is dropped."""
        whom, answer = self._asked.get(part.id, (None, None))
        if whom == conn and answer is not None and not answer.done():
            answer.set_result(LogPart(part.text, part.offset, part.size, part.missing))

    def gone(self, conn: int) -> None:
        for whom, answer in self._asked.values():
            if whom == conn and not answer.done():
                answer.set_result(None)
