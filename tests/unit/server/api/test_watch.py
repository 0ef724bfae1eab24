"""Facts as they happen, while the journal is made shorter."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.builders import grid
from weft.access.auth.identity import Caller, owner
from weft.errors import JournalError
from weft.history.journal.sqlite import SqliteJournal
from weft.history.journal.sqlite.compaction import compact
from weft.model import Exited, Fact, Job, NodeJoined, Submitted, Task
from weft.server.api.watch import redacted_for, watch_facts

PATIENCE_S = 10.0


class Watched:
    """A journal and the service that tells what goes into it."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal, self.changed = journal, asyncio.Condition()

    def watch(self, after: int) -> AsyncIterator[Any]:
        return watch_facts(self.journal, self.changed, after, owner(), str)

    async def append(self, *facts: Fact) -> None:
        async with self.changed:
            self.journal.append(*facts)
            self.changed.notify_all()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "a.db") as made:
        made.append(*(NodeJoined(0.0, node) for node in grid(1, 8)))
        made.append(*(Submitted(1.0, Job(f"{number}")) for number in range(1, 6)))
        yield made


async def following(stream: AsyncIterator[Any]) -> int:
    return int((await asyncio.wait_for(anext(stream), PATIENCE_S)).position)


def test_after_a_compaction_the_next_facts_are_told_with_their_positions(journal: SqliteJournal) -> None:
    async def run() -> None:
        watched = Watched(journal)
        assert compact(journal.path)
        assert (journal.base, len(journal)) == (6, 6)
        new, old = watched.watch(6), watched.watch(0)
        await watched.append(Exited(2.0, "1", 1, "done"))
        assert [await following(new), await following(old)] == [7, 7]
        await watched.append(Exited(3.0, "2", 1, "done"))
        assert [await following(new), await following(old)] == [8, 8]

    asyncio.run(run())


def test_whoever_watches_from_before_a_compaction_is_not_left_waiting(journal: SqliteJournal) -> None:
    async def run() -> None:
        watched = Watched(journal)
        half_way = watched.watch(2)
        assert await following(half_way) == 3
        await watched.append(*(Submitted(2.0, Job(f"x{number}")) for number in range(3000)))
        assert compact(journal.path)
        with pytest.raises(StopAsyncIteration):
            await following(watched.watch(3))
        assert [line.position async for line in half_way] in ([4, 5, 6], [*range(4, 1001)])

    asyncio.run(run())


def test_a_journal_that_cannot_be_read_is_an_error(journal: SqliteJournal) -> None:
    async def run() -> None:
        with sqlite3.connect(journal.path) as db:
            db.execute("DELETE FROM facts WHERE position = 3")
        with pytest.raises(JournalError, match="missing"):
            await following(Watched(journal).watch(1))

    asyncio.run(run())


def test_nobody_sees_the_environment_of_others() -> None:
    fact = Submitted(0.0, Job("1", user="ann", command=("true",), task=Task(env=(("KEY", "secret"),), key="k")))
    assert redacted_for(Caller("ann", "user"), fact) == fact
    assert redacted_for(Caller("root", "admin"), fact) == fact
    theirs = redacted_for(Caller("bob", "user"), fact)
    assert isinstance(theirs, Submitted)
    assert theirs.job.task == Task()
    assert theirs.job.command == ("true",)
    assert redacted_for(Caller("bob", "user"), Exited(1.0, "1", 1, "done")) == Exited(1.0, "1", 1, "done")
