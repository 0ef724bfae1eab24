"""A journal in an SQLite database: the store, its compaction, backups and checks. Only this room uses SQLite."""

from __future__ import annotations

from weft.history.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
