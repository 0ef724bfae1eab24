"""Streams of facts as they are journalled. A client that does not read them is cut off."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from weft.access.auth.identity import Caller
from weft.access.wire import messages as m
from weft.errors import JournalError, Refused
from weft.history.journal import Journal
from weft.history.journal.codec import encode_line
from weft.model import Edited, Fact, JobSnapshot, Submitted
from weft.server.process.cpu_shares import pause_payer
from weft.server.rpc.cut_off import cut_off

FACTS_PER_PAGE: Final = 32
"""Facts read ahead for each watcher. They may be large, and a watcher may never read them."""
MAX_BACKLOG_BYTES: Final = 1 << 20
STALL_S: Final = 10.0
"""A watcher that takes nothing for this long while its backlog is over the limit is cut off."""
log = logging.getLogger(__name__)


async def watch_facts(
    journal: Journal, changed: asyncio.Condition, position: int, who: Caller, trouble: Callable[[], str]
) -> AsyncIterator[m.FactLine]:
    """Stream facts from a position on; from 0, those after the last snapshot. A note says what keeps facts from coming.

    The stream ends if a snapshot has replaced the next facts. The client must query the state again then.
    """
    position, told = position or journal.base, ""
    guard = StallGuard(journal)
    try:
        while position >= journal.base:
            try:
                facts = await _read(journal, position)
                while page := await _next_page(journal, facts):
                    for fact in page:
                        position += 1
                        line = m.FactLine(position=position, json=encode_line(redacted_for(who, fact)))
                        guard.sends(position, len(line.json))
                        yield line
                        guard.has_sent()
                        await pause_payer()
            except JournalError:
                if position >= journal.base:
                    raise
                return
            async with changed:
                while len(journal) <= position and trouble() == told:
                    await changed.wait()
            if told != (told := trouble()) and told:
                yield m.FactLine(position=position, note=told)
    finally:
        guard.close()


async def _read(journal: Journal, position: int) -> Iterator[Fact]:
    if not journal.waits:
        return journal.read(position, page=FACTS_PER_PAGE)
    return await asyncio.to_thread(journal.read, position, page=FACTS_PER_PAGE)


async def _next_page(journal: Journal, facts: Iterator[Fact]) -> list[Fact]:
    """Return the next facts, read in a thread if the journal waits for a network."""
    some = islice(facts, FACTS_PER_PAGE)
    return await asyncio.to_thread(list, some) if journal.waits else list(some)


class StallGuard:
    """Cuts the present call off once its client has stopped reading and too much waits for it."""

    def __init__(self, journal: Journal, stall_s: float = STALL_S) -> None:
        self._journal, self._stall_s, self._call = journal, stall_s, asyncio.current_task()
        self._position = self._fact_bytes = 0
        self._since: float | None = None
        """When the present message was offered to the client; None: it took the last one."""
        self._check_later()

    def sends(self, position: int, size: int) -> None:
        self._position, self._since = position, time.monotonic()
        self._fact_bytes += (size - self._fact_bytes) // 8  # a moving average

    def has_sent(self) -> None:
        self._since = None

    def close(self) -> None:
        self._timer.cancel()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._stall_s / 2, self._check)

    def _check(self) -> None:
        backlog = (len(self._journal) - self._position) * self._fact_bytes
        stalled = self._since is not None and time.monotonic() - self._since > self._stall_s
        if not stalled or backlog <= MAX_BACKLOG_BYTES or self._call is None:
            self._check_later()
            return
        what = f"this client was cut off: it has read nothing for {self._stall_s:.0f} s, and {backlog / 2**20:.1f} MB"
        reason = Refused(f"{what} of facts wait\n  read faster, or watch from a later position")
        log.warning("a watcher was cut off: it read nothing while %d bytes waited", backlog)
        cut_off(self._call, reason)


def redacted_for(who: Caller, fact: Fact) -> Fact:
    """Return the fact without the environment of a job that the caller does not own: it may hold secrets."""
    if not isinstance(fact, Submitted | Edited | JobSnapshot) or fact.job.task is None or who.owns(fact.job.user):
        return fact
    return replace(fact, job=replace(fact.job, task=replace(fact.job.task, env=(), key="")))
