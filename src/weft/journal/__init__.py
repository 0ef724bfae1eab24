"""Append-only facts: in memory, as a text file, in SQLite. Replaying them restores the scheduler."""

from __future__ import annotations

import os
from pathlib import Path

from weft.errors import JournalError
from weft.journal.base import Journal
from weft.journal.jsonl import JsonlJournal
from weft.journal.memory import MemoryJournal

__all__ = ["Journal", "JsonlJournal", "MemoryJournal", "open_journal"]


def open_journal(path: str | os.PathLike[str], *, readonly: bool = False) -> Journal:
    """The journal in this file, made if need be: text for `.jsonl`, SQLite for `.db` and `.sqlite`."""
    suffix = Path(path).suffix
    if suffix == ".jsonl":
        return JsonlJournal(path, readonly=readonly)
    if suffix in (".db", ".sqlite"):
        from weft.journal.sqlite import SqliteJournal  # costs milliseconds that a text journal need not pay

        return SqliteJournal(path, readonly=readonly)
    raise JournalError(f"cannot tell the kind of journal from {os.fspath(path)!r}: end it in .jsonl, .db or .sqlite")
