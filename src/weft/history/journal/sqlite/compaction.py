"""Compaction: replaces the facts of a journal so far by a snapshot of the same state.

It runs concurrently with the writer, in small transactions that hardly delay appends. If it is killed, the journal
is either as before or compacted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Final

from weft.errors import JournalError
from weft.history.journal.codec import seal
from weft.history.journal.sqlite.journal import SqliteJournal
from weft.history.journal.summary import summary
from weft.inputs.locks import Locked, locked
from weft.model import Fact

TRANSACTION_ROWS: Final = 2000
LOCK_TIMEOUT_S: Final = 30.0


def compact(path: str | os.PathLike[str]) -> bool:
    """Compact the journal. Return False if it is impossible now: another compaction runs, or a key has just changed."""
    try:
        with locked(f"{os.fspath(path)}-compaction", f"another compaction of {path} runs"):
            return _compact(path)
    except Locked:
        return False


def _compact(path: str | os.PathLike[str]) -> bool:
    with SqliteJournal(path, readonly=True) as journal:
        until = len(journal)
        facts = summary(islice(journal.read(), _count_facts(journal, until)))
    if facts is None:
        return False
    db = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
    try:
        base = _base(db)
        if base > until:
            return False
        _publish(db, until, base, _write(db, iter(facts)))
        _delete_facts(db, until)
    finally:
        db.close()
    return True


def _count_facts(journal: SqliteJournal, until: int) -> int:
    """Return the number of facts to read up to a position: those of the snapshot, and those after it."""
    base = journal.base
    return until if not base else journal.snapshot_size + until - base


def _base(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()
    return int(row[0]) if row else 0


def _write(db: sqlite3.Connection, facts: Iterator[Fact]) -> int:
    """Write the new snapshot to a separate table, and return its number of facts."""
    db.execute("DROP TABLE IF EXISTS snapshot_new")
    db.execute("CREATE TABLE snapshot_new (position INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    position = 0
    while page := list(islice(facts, TRANSACTION_ROWS)):
        rows = [(number, seal(fact, number)) for number, fact in enumerate(page, start=position + 1)]
        position += len(rows)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO snapshot_new VALUES (?, ?)", rows)
        db.execute("COMMIT")
    return position


def _publish(db: sqlite3.Connection, base: int, before: int, facts: int) -> None:
    """Replace the old snapshot by the new one, unless another compaction interfered."""
    db.execute("BEGIN IMMEDIATE")
    (found,) = db.execute("SELECT count(*) FROM snapshot_new").fetchone()
    if found != facts or _base(db) != before:
        db.execute("ROLLBACK")
        raise JournalError("another compaction is running: this one is aborted")
    db.execute("DROP TABLE IF EXISTS snapshot")
    db.execute("ALTER TABLE snapshot_new RENAME TO snapshot")
    db.execute("INSERT OR REPLACE INTO meta VALUES ('base', ?)", (str(base),))
    db.execute("COMMIT")


def _delete_facts(db: sqlite3.Connection, base: int) -> None:
    """Delete the facts that the snapshot replaces, in small transactions."""
    (first,) = db.execute("SELECT min(position) FROM facts").fetchone()
    for begin in range(first or base + 1, base + 1, TRANSACTION_ROWS):
        db.execute("DELETE FROM facts WHERE position < ?", (min(begin + TRANSACTION_ROWS, base + 1),))
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
