"""What runs wrote: read for the scheduler when it asks, and the last of it sent now and then."""

from __future__ import annotations

import asyncio
from typing import Final

from weft.agent.state_dir import Folder
from weft.agent.state_machine import is_run
from weft.engines.process.output.logs import log_path, read_part
from weft.wire.messages import AgentMessage, LogPart, LogTail, ReadLog
from weft.wire.runs import RunKey

TAIL_BYTES: Final = 16 << 10


async def answer(folder: Folder, asked: ReadLog) -> AgentMessage:
    """One part for each that is asked for: whoever reads slowly asks slowly."""
    if not is_run(asked.job, asked.run):
        return AgentMessage(log=LogPart(id=asked.id, missing=True, end=True))
    path = log_path(str(folder.jobs), asked.job, asked.run)
    found = await asyncio.to_thread(read_part, path, asked.offset, lines=asked.lines)
    part = LogPart(
        id=asked.id,
        offset=found.offset,
        text=found.text,
        end=found.missing or found.next_offset >= found.size,
        missing=found.missing,
        size=found.size,
    )
    return AgentMessage(log=part)


class Tails:
    """Remembers how long each log was when its end was last sent."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._sent: dict[RunKey, int] = {}

    def of(self, key: RunKey) -> AgentMessage | None:
        """The last of what it wrote; None: nothing since."""
        path = log_path(str(self._folder.jobs), *key)
        size = read_part(path, max_bytes=0).size
        if size == self._sent.get(key, 0):
            return None
        found = read_part(path, max(size - TAIL_BYTES, 0), max_bytes=TAIL_BYTES)
        self._sent[key] = found.next_offset
        return AgentMessage(tail=LogTail(job=key[0], run=key[1], offset=found.offset, text=found.text))

    def forget(self, key: RunKey) -> None:
        self._sent.pop(key, None)

    def start_over(self) -> None:
        """What was on its way when a connection was cut may not have arrived."""
        self._sent.clear()
