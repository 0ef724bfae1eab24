"""The SQLite database of a journal."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import ClassVar

from weft.history.journal.base import CHECK_TIMEOUT_S, OK, Health
from weft.history.journal.file_store import FileStore
from weft.history.journal.sqlite.backup import back_up
from weft.history.journal.sqlite.compaction import compact
from weft.history.journal.sqlite.health import health
from weft.history.journal.sqlite.journal import SqliteJournal


class SqliteStore(FileStore):
    scheme: ClassVar[str] = "sqlite"
    journal = SqliteJournal
    side_files: ClassVar[tuple[str, ...]] = ("-wal", "-shm")

    def compact(self) -> bool:
        return compact(self.path)

    def backup(self) -> None:
        back_up(self.path, self.backup_path)

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        until = time.monotonic() + timeout_s
        found = health(self.path, timeout_s)
        return replace(found, check=self.diagnose(until)) if found.check == OK else found
