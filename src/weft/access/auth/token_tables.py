"""The table of tokens: in an SQLite file of one server, or in the database that several servers share."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from weft.access.endpoints.paths import make_private
from weft.errors import WeftError
from weft.history.journal.postgres import schema
from weft.history.journal.postgres.session import Session

FILE: Final = "auth.db"
LOCK_TIMEOUT_S: Final = 5.0
SCHEMA: Final = """
create table if not exists tokens (
    id text primary key, kind text not null, hash blob not null, role text not null, user text not null,
    node text not null default '', made_at real not null, made_by text not null, expires_at real, used_at real,
    revoked_at real
) strict
"""
Row = Mapping[str, Any]


class TokenTable(Protocol):
    """Executes SQL with `?` for parameters."""

    is_remote: bool
    """True: calls wait for a network, except `find`."""

    def find(self, key: str) -> Row | None:
        """Return the row of a token."""

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]: ...

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a change, and return the number of changed rows."""

    def exclusive(self) -> Any:
        """Return a context in which no other process changes the table; an exception undoes all changes in it."""

    def refresh(self) -> None:
        """Learn what others changed."""

    def close(self) -> None: ...


class SqliteTokenTable:
    is_remote = False

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self._path = folder / FILE
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with self._translate_errors():
            self._db = sqlite3.connect(self._path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._db.execute(SCHEMA)

    def find(self, key: str) -> Row | None:
        found = self.rows("select * from tokens where id = ?", (key,))
        return found[0] if found else None

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._translate_errors():
            return [dict(row) for row in self._db.execute(statement, parameters).fetchall()]

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        with self._translate_errors():
            return self._db.execute(statement, parameters).rowcount

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._translate_errors():
            self._db.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def refresh(self) -> None:
        """Do nothing: every call reads the file."""

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise WeftError(
                f"cannot use {self._path}: {error}\n  check that the file is intact and the disk has space"
            ) from None


class PostgresTokenTable:
    """The table in the database. `find` reads a copy in memory, so that calls never wait for the database."""

    is_remote = True

    def __init__(self, url: str) -> None:
        self._session = Session(url)
        self._guard = threading.RLock()
        self._known: dict[str, Row] = {}
        schema.create(self._session)
        self.refresh()

    def find(self, key: str) -> Row | None:
        return self._known.get(key)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._session.connection("read") as db:
            cursor = db.execute(_translated(statement), parameters)
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        count = self._session.run("write to", _translated(statement), parameters)[0]
        self.refresh()
        return count

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        try:
            with self._guard, self._session.transaction("write to") as db:
                db.execute("lock table weft_tokens in exclusive mode")
                yield
        finally:
            self.refresh()

    def refresh(self) -> None:
        with self._guard:
            self._known = {row["id"]: row for row in self.rows("select * from tokens")}

    def close(self) -> None:
        self._session.close()


def _translated(statement: str) -> str:
    """Return the statement with this table's name and PostgreSQL's parameters."""
    return statement.replace(" tokens", " weft_tokens").replace("?", "%s")
