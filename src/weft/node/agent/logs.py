"""Logs of runs for the scheduler: parts on request, and the last part periodically."""

from __future__ import annotations

import asyncio
from typing import Final

from weft.access.wire.messages import AgentMessage, LogPart, LogTail, ReadLog
from weft.access.wire.runs import RunKey
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.state_machine import is_valid_run
from weft.node.engine.output.logs import log_path, read_part

TAIL_BYTES: Final = 16 << 10


async def read_log(folder: AgentDir, request: ReadLog) -> AgentMessage:
    """Read one part of a log. Slow readers request slowly, so no queue builds up."""
    if not is_valid_run(request.job, request.run):
        return AgentMessage(log=LogPart(id=request.id, missing=True, end=True))
    path = log_path(str(folder.jobs), request.job, request.run, stderr=request.stderr)
    found = await asyncio.to_thread(read_part, path, request.offset, lines=request.lines)
    part = LogPart(
        id=request.id,
        offset=found.offset,
        text=found.text,
        end=found.missing or found.next_offset >= found.size,
        missing=found.missing,
        size=found.size,
        older=found.older,
    )
    return AgentMessage(log=part)


class LogTails:
    """The sizes up to which logs have been sent."""

    def __init__(self, folder: AgentDir) -> None:
        self._folder = folder
        self._sent: dict[RunKey, int] = {}

    def new_tail(self, key: RunKey) -> AgentMessage | None:
        """Return the last part of a log, or None if it has not grown."""
        path = log_path(str(self._folder.jobs), *key)
        size = read_part(path, max_bytes=0).size
        if size == self._sent.get(key, 0):
            return None
        found = read_part(path, max(size - TAIL_BYTES, 0), max_bytes=TAIL_BYTES)
        self._sent[key] = found.next_offset
        return AgentMessage(tail=LogTail(job=key[0], run=key[1], offset=found.offset, text=found.text))

    def forget(self, key: RunKey) -> None:
        self._sent.pop(key, None)

    def reset(self) -> None:
        """Send all tails again: those in transit may be lost with the connection."""
        self._sent.clear()
