"""The PostgreSQL database of a journal."""

from __future__ import annotations

from weft.errors import JournalError
from weft.history.journal.base import CHECK_TIMEOUT_S, Health, Journal
from weft.history.journal.postgres import backup, schema
from weft.history.journal.postgres.compaction import compact
from weft.history.journal.postgres.health import health
from weft.history.journal.postgres.journal import PostgresJournal
from weft.history.journal.postgres.session import Session, public_url


class PostgresStore:
    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def location(self) -> str:
        return public_url(self.url)

    @property
    def backup_location(self) -> str:
        return f"the tables weft_backup_* of {public_url(self.url)}"

    def open(self, *, readonly: bool = False) -> Journal:
        return PostgresJournal(self.url, readonly=readonly)

    def exists(self) -> bool:
        session = Session(self.url)
        try:
            return schema.has_tables(session)
        finally:
            session.close()

    def compact(self) -> bool:
        return compact(self.url)

    def backup(self) -> None:
        backup.back_up(self.url)

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        return health(self.url, timeout_s)

    def backup_at(self) -> float | None:
        session = Session(self.url)
        try:
            return backup.backup_at(session)
        except JournalError:
            return None
        finally:
            session.close()

    def backup_length(self) -> int | None:
        if self.backup_at() is None:
            return None
        session = Session(self.url)
        try:
            return backup.length(session)
        finally:
            session.close()

    def restore(self) -> None:
        backup.restore(self.url)
