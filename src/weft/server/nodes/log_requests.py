"""Requests for parts of logs, sent to agents, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from weft.access.wire import messages as m
from weft.node.engine.output.logs import LogPart

ANSWER_TIMEOUT_S: Final = 10.0
"""An agent that takes longer counts as gone."""
MAX_PENDING: Final = 1000
"""Requests at a time, to all agents together."""


class LogRequests:
    """Requests that wait for an answer, by their id."""

    def __init__(self) -> None:
        self._last_id = 0
        self._pending: dict[int, tuple[int, asyncio.Future[LogPart | None]]] = {}
        self._slots = asyncio.Semaphore(MAX_PENDING)

    async def read(self, conn: int, send: Callable[[m.SchedulerMessage], bool], request: m.ReadLog) -> LogPart | None:
        """Ask an agent for a part of a log. Return None if it does not answer."""
        async with self._slots:
            self._last_id += 1
            request.id = self._last_id
            answer: asyncio.Future[LogPart | None] = asyncio.get_running_loop().create_future()
            self._pending[request.id] = conn, answer
            try:
                if not send(m.SchedulerMessage(read=request)):
                    return None
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    return await answer
            except TimeoutError:
                return None
            finally:
                del self._pending[request.id]

    def receive(self, conn: int, part: m.LogPart) -> None:
        """Pass on the answer of an agent. Drop one that was not asked of this connection."""
        asked_conn, answer = self._pending.get(part.id, (None, None))
        if asked_conn == conn and answer is not None and not answer.done():
            answer.set_result(LogPart(part.text, part.offset, part.size, part.missing, part.older))

    def disconnect(self, conn: int) -> None:
        """Answer the requests to this connection with None."""
        for asked_conn, answer in self._pending.values():
            if asked_conn == conn and not answer.done():
                answer.set_result(None)
