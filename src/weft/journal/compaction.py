"""Makes a journal shorter: the facts up to now are replaced by a snapshot that adds up to the same state.

It runs beside whoever appends, in small transactions, so that nobody waits for it. Killed at any moment it leaves the
journal as it was, or as it is to be.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Final

from weft.core.folds.snapshots import snapshot
from weft.core.state import State
from weft.journal.codec import encode_line
from weft.journal.sqlite import SqliteJournal
from weft.model import Alarm, Fact

ROWS: Final = 2000
"""In one transaction."""
PATIENCE_S: Final = 30.0


def compact(path: str | os.PathLike[str]) -> bool:
    """False where it is not the moment: a key has just stepped."""
    with SqliteJournal(path, readonly=True) as journal:
        until, state, alarm = len(journal), State(), None
        for fact in islice(journal.read(), _facts_in(journal, until)):
            state.apply(fact)
            if type(fact) is Alarm:
                alarm = fact.due
    if state.stepped:
        return False
    facts = iter([*snapshot(state), Alarm(state.now, alarm)])
    db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
    try:
        _write(db, facts)
        _turn(db, until)
        _drop(db, until)
    finally:
        db.close()
    return True


def _facts_in(journal: SqliteJournal, until: int) -> int:
    """How many facts a reader gets up to a position: those of the snapshot, and those after it."""
    base = journal.base
    return until if not base else journal.snapshot_size + until - base


def _write(db: sqlite3.Connection, facts: Iterator[Fact]) -> None:
    """The new snapshot, beside the old."""
    db.execute("DROP TABLE IF EXISTS snapshot_new")
    db.execute("CREATE TABLE snapshot_new (position INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    position = 0
    while page := [encode_line(fact) for fact in islice(facts, ROWS)]:
        rows = list(enumerate(page, start=position + 1))
        position += len(rows)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO snapshot_new VALUES (?, ?)", rows)
        db.execute("COMMIT")


def _turn(db: sqlite3.Connection, base: int) -> None:
    """From here on the new snapshot counts."""
    db.execute("BEGIN IMMEDIATE")
    db.execute("DROP TABLE IF EXISTS snapshot")
    db.execute("ALTER TABLE snapshot_new RENAME TO snapshot")
    db.execute("INSERT OR REPLACE INTO meta VALUES ('base', ?)", (str(base),))
    db.execute("COMMIT")


def _drop(db: sqlite3.Connection, base: int) -> None:
    """What the snapshot stands for, a little at a time."""
    (first,) = db.execute("SELECT min(position) FROM facts").fetchone()
    for begin in range(first or base + 1, base + 1, ROWS):
        db.execute("DELETE FROM facts WHERE position < ?", (min(begin + ROWS, base + 1),))
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
