"""Compaction: replace all facts so far by a snapshot of the same state, in one transaction.

Appends go on meanwhile: they write other rows. No fence is needed, because a snapshot follows from facts that are
committed, whichever server computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from weft.history.journal.codec import seal
from weft.history.journal.postgres.journal import decode_row
from weft.history.journal.postgres.session import Session
from weft.history.journal.summary import summary
from weft.model import Fact

COMPACTION_LOCK: Final = 0x77656675
"""The advisory lock of a transaction that compacts."""
FETCHED_ROWS: Final = 2000


def compact(url: str) -> bool:
    """Compact the journal. Return False if it is impossible now: another compaction runs, or a key has just changed."""
    session = Session(url, timeout_s=0.0)
    try:
        with session.transaction("compact", repeatable=True) as db:
            if not db.execute("SELECT pg_try_advisory_xact_lock(%s)", (COMPACTION_LOCK,)).fetchone()[0]:
                return False
            return _compact(db, session.where)
    finally:
        session.close()


def _compact(db: Any, where: str) -> bool:
    (until,) = db.execute("SELECT coalesce(max(position), 0) FROM weft_facts").fetchone()
    if not until:
        return True
    facts = summary(chain(_facts(db, "weft_snapshot", where), _facts(db, "weft_facts", where)))
    if facts is None:
        return False
    db.execute("DELETE FROM weft_snapshot")
    _write(db, facts)
    db.execute("DELETE FROM weft_facts WHERE position <= %s", (until,))
    db.execute(
        "INSERT INTO weft_meta VALUES ('base', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(until),),
    )
    return True


def _facts(db: Any, table: str, where: str) -> Iterator[Fact]:
    with db.cursor(name=f"all_of_{table}") as cursor:
        cursor.itersize = FETCHED_ROWS
        for position, body in cursor.execute(f"SELECT position, body FROM {table} ORDER BY position"):
            yield decode_row(where, position, body)


def _write(db: Any, facts: Iterable[Fact]) -> None:
    with db.cursor() as cursor, cursor.copy("COPY weft_snapshot (position, body) FROM STDIN") as copy:
        for position, fact in enumerate(facts, start=1):
            copy.write_row((position, seal(fact, position)))
