"""Append-only logs of facts: in memory, a text file, SQLite or PostgreSQL. Replaying the facts restores the scheduler.

The port is in `base`, the JSON of facts in `codec`; each store is a module or a room. A new store implements both
protocols of `base` and gets its scheme in `SCHEMES` and `store_at`. Add it to `STORES` of
tests/contract/test_journals.py, so that the contract tests run against it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.errors import JournalError
from weft.history.journal.base import Journal, Store
from weft.history.journal.jsonl import JsonlJournal, JsonlStore
from weft.history.journal.memory import MemoryJournal

__all__ = [
    "Journal",
    "JsonlJournal",
    "MemoryJournal",
    "Store",
    "for_process",
    "is_postgres",
    "open_journal",
    "store_at",
]

SCHEMES: Final = {".jsonl": "jsonl", ".db": "sqlite", ".sqlite": "sqlite"}
"""The store for a plain path, by its suffix."""
POSTGRES_SCHEMES: Final = ("postgresql", "postgres")


def open_journal(url: str | os.PathLike[str], *, readonly: bool = False) -> Journal:
    """Open the journal at a URL or path, and create it where there is none. See `store_at`."""
    return store_at(url).open(readonly=readonly)


def store_at(url: str | os.PathLike[str]) -> Store:
    """Return the store at a URL, `sqlite:///path`, `jsonl:///path` or `postgresql://user@host/database`, or at a path
    ending in .jsonl, .db or .sqlite."""
    text = os.fspath(url)
    scheme, separator, path = text.partition("://")
    if not separator:
        scheme, path = SCHEMES.get(Path(text).suffix, ""), text
        if not scheme:
            raise JournalError(f"cannot tell the kind of journal from {text!r}: end it in .jsonl, .db or .sqlite")
    if path.startswith("//"):  # sqlite:////path, as other libraries write it; pathlib would keep both slashes
        path = f"/{path.lstrip('/')}"
    if scheme == "jsonl":
        return JsonlStore(Path(path))
    if scheme == "sqlite":
        from weft.history.journal.sqlite.store import SqliteStore  # sqlite3 takes milliseconds to import

        return SqliteStore(Path(path))
    if scheme in POSTGRES_SCHEMES:
        from weft.history.journal.postgres.store import PostgresStore

        return PostgresStore(text)
    raise JournalError(
        f"no journal supports {scheme}:// URLs: use sqlite:///path or jsonl:///path, or postgresql://user@host/database"
    )


def for_process(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL for the command line of a process, and variables for its environment: other users can read the
    command line, so that it must not have a password."""
    scheme, separator, rest = url.partition("://")
    where, slash, path = rest.partition("/")
    login, at, host = where.rpartition("@")
    user, colon, password = login.partition(":")
    if not (is_postgres(url) and colon):
        return url, {}
    from urllib.parse import unquote

    return f"{scheme}{separator}{user}{at}{host}{slash}{path}", {"PGPASSWORD": unquote(password)}


def is_postgres(url: str | os.PathLike[str]) -> bool:
    """Return whether a URL names a PostgreSQL database."""
    return os.fspath(url).partition("://")[0] in POSTGRES_SCHEMES
