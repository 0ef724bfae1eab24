"""One connection to a database, made when it is needed and made again after it broke. Errors name the place."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from weft.errors import JournalError

STATEMENT_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 5
KEEPALIVE: Final = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
"""A dead database is an error after seconds, not a call that hangs."""
INSTALL_HINT: Final = "install the extra: pip install 'weft[postgres]'"
Parameters = Sequence[Any] | Mapping[str, Any]


class ConnectionLost(JournalError):
    """The database cannot be reached, or the connection broke: the last statement may or may not have taken effect."""


class Conflict(JournalError):
    """A row with the same key exists: another process wrote it."""


def load_psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise JournalError(f"PostgreSQL needs the package psycopg\n  {INSTALL_HINT}") from None
    return psycopg


def public_url(url: str) -> str:
    """Return the URL without its password, for messages."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    where, slash, path = rest.partition("/")
    user, at, host = where.rpartition("@")
    path = path.partition("?")[0]
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"


class Session:
    """A connection in autocommit mode. Threads may share it; they then wait for each other."""

    def __init__(self, url: str, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> None:
        self.url, self.where = url, public_url(url)
        self._psycopg, self._timeout_s = load_psycopg(), timeout_s
        self._db: Any = None
        self._lock = threading.RLock()

    def run(self, action: str, statement: str, parameters: Parameters = ()) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute a statement; return the number of rows that it changed or found, and those that it returns."""
        with self.connection(action) as db:
            cursor = db.execute(statement, parameters or None)
            return cursor.rowcount, cursor.fetchall() if cursor.description else []

    def rows(self, action: str, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        return self.run(action, statement, parameters)[1]

    @contextmanager
    def connection(self, action: str) -> Iterator[Any]:
        """Yield the connection. `action`, such as `append to`, becomes part of errors."""
        with self._lock, self._explain_errors(action):
            if self._db is None or self._db.closed:
                self._db = self._connect()
            yield self._db

    @contextmanager
    def transaction(self, action: str, *, repeatable: bool = False) -> Iterator[Any]:
        """Run statements in one transaction; with `repeatable`, all of them see the same facts."""
        with self.connection(action) as db, db.transaction():
            if repeatable:
                db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield db

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:  # psycopg warns of connections that were left open
            self._db.close()

    def _connect(self) -> Any:
        given = self._psycopg.conninfo.conninfo_to_dict(self.url)
        timeout_ms = max(round(self._timeout_s * 1000), 0)
        options = f"{given.pop('options', '')} -c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms}"
        defaults = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "weft", **KEEPALIVE}
        db = self._psycopg.connect(**{**defaults, **given}, options=options.strip(), autocommit=True)
        try:
            if db.execute("SHOW synchronous_commit").fetchone()[0] == "off":  # facts must be on disk, as everywhere
                db.execute("SET synchronous_commit = on")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _explain_errors(self, action: str) -> Iterator[None]:
        errors = self._psycopg.errors
        try:
            yield
        except errors.UniqueViolation:
            raise Conflict(
                f"cannot {action} {self.where}: another process wrote to it\n  stop one of the two, then reopen it"
            ) from None
        except (errors.InsufficientPrivilege, errors.InvalidPassword, errors.InvalidCatalogName) as error:
            raise JournalError(f"cannot {action} {self.where}: {_first_line(error)}") from None
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            raise ConnectionLost(f"cannot {action} {self.where}: {_first_line(error)}") from None
        except self._psycopg.Error as error:
            raise JournalError(f"cannot {action} {self.where}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Return what went wrong. Messages of failed connections name every address that was tried."""
    return str(error).strip().partition("\n")[0]
