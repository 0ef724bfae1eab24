"""A journal in an SQLite database: each append is one transaction, on disk when the call returns."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from weft.errors import JournalDamaged, JournalError
from weft.history.journal.base import CHECK_TIMEOUT_S, PAGE_FACTS, Encoded, Health
from weft.history.journal.codec import FORMAT, check_format, seal, unseal
from weft.history.journal.files import explain_errors, open_private
from weft.model import Fact

if TYPE_CHECKING:
    from weft.history.journal.sqlite.store import SqliteStore

TABLES: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE facts (position INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE snapshot (position INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    "INSERT INTO meta VALUES ('weft', 'journal')",
    f"INSERT INTO meta VALUES ('format', '{FORMAT}')",
)


class SqliteJournal:
    """A journal that other processes may read while this one appends. See `.compaction` for its snapshot."""

    waits = False
    torn: str | None = None
    """Always None: a transaction is never half there."""

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = Path(path)
        self._has_tables = False
        self._append_error = "it is open for reading only" if readonly else ""
        with explain_errors(self.path, "open"):
            os.close(open_private(self.path, os.O_RDONLY if readonly else os.O_RDWR | os.O_CREAT))
        with self._explain_errors("open"):
            uri = f"file:{quote(str(self.path.absolute()))}?mode={'ro' if readonly else 'rw'}"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                self._count = self._recover(readonly)
            except BaseException:
                self._db.close()
                raise

    def append(self, *facts: Fact | Encoded) -> None:
        if self._append_error:
            raise JournalError(f"cannot append to {self.path}: {self._append_error}")
        if not facts:
            return
        rows = [(position, seal(fact, position)) for position, fact in enumerate(facts, start=self._count + 1)]
        with self._explain_errors("append to"), self._transaction():
            self._db.executemany("INSERT INTO facts VALUES (?, ?)", rows)
        self._count += len(rows)

    def sync(self) -> None:
        """Do nothing: every append is synced."""

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:

        base = self.base
        early = self._rows("snapshot", 0, self._last("snapshot"), page) if after < base else iter(())
        return chain(early, self._rows("facts", max(after, base), self._count, page))

    @property
    def base(self) -> int:

        if not self._has_tables:
            return 0
        with self._explain_errors("read"):
            row = self._db.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()
        return int(row[0]) if row else 0

    @property
    def name(self) -> str:

        if not self._has_tables:
            return ""
        with self._explain_errors("read"):
            row = self._db.execute("SELECT value FROM meta WHERE key = 'name'").fetchone()
        return str(row[0]) if row else ""

    @property
    def snapshot_size(self) -> int:
        return self._last("snapshot") if self.base else 0

    def __len__(self) -> int:
        return self._count

    @property
    def url(self) -> str:
        return self._store().url

    def compact(self) -> bool:
        return self._store().compact()

    def backup(self) -> None:
        self._store().backup()

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        return self._store().check(timeout_s)

    def _store(self) -> SqliteStore:
        from weft.history.journal.sqlite.store import SqliteStore  # the store imports this module

        return SqliteStore(self.path)

    def close(self) -> None:
        self._append_error = self._append_error or "it is closed; reopen it"
        with self._explain_errors("close"):
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, table: str, after: int, until: int, page: int) -> Iterator[Fact]:
        # page by page, so that a reader that stops halfway holds no transaction open
        for begin in range(after, until, page):
            end = min(begin + page, until)
            with self._explain_errors("read"):
                rows = self._db.execute(
                    f"SELECT position, CAST(body AS BLOB) FROM {table}"
                    " WHERE position > ? AND position <= ? ORDER BY position",
                    (begin, end),
                ).fetchall()
            if len(rows) != end - begin:
                raise JournalDamaged(
                    f"{self.path}: rows of {table} are missing between positions {begin + 1} and {end}"
                )
            for position, body in rows:
                try:
                    fact = unseal(body, position)
                except JournalError as error:
                    raise type(error)(f"{self.path}: position {position}: {error}") from None
                yield fact

    def _last(self, table: str) -> int:
        with self._explain_errors("read"):
            (last,) = self._db.execute(f"SELECT max(position) FROM {table}").fetchone()
        return int(last or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _explain_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise JournalError(
                f"cannot {action} {self.path}: another process wrote to it\n  stop one of the two, then reopen it"
            ) from None
        except sqlite3.Error as error:
            kind = JournalDamaged if type(error) is sqlite3.DatabaseError else JournalError
            raise kind(f"cannot {action} {self.path}: {error}") from None

    # ---- opening

    def _recover(self, readonly: bool) -> int:
        """Create missing tables, and return the number of facts."""
        if not readonly:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        names = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not names:
            if not readonly:
                self._create()
            self._has_tables = not readonly
            return 0
        if not {"meta", "facts"} <= names:
            raise JournalError(f"cannot open {self.path}: a database, but not a Weft journal; it holds {sorted(names)}")
        self._has_tables = True
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        if meta.get("weft") != "journal":
            raise JournalError(f"cannot open {self.path}: a database, but not a Weft journal")
        found = str(meta.get("format"))
        check_format(int(found) if found.isdecimal() else found, str(self.path))
        return max(self._last("facts"), self.base)

    def _create(self) -> None:
        with self._transaction():
            for statement in TABLES:
                self._db.execute(statement)
            self._db.execute("INSERT INTO meta VALUES ('name', ?)", (os.urandom(8).hex(),))
