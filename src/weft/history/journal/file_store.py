"""The common part of stores in files: the backup next to the file, and restoring it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

from weft.errors import JournalError, NotFound
from weft.history.journal.base import OK, UNFINISHED, Journal
from weft.inputs.atomic import replacement

BACKUP_SUFFIX: Final = ".backup"
DAMAGED_SUFFIX: Final = ".damaged"


class FileStore:
    """A journal in one file, possibly with side files."""

    scheme: ClassVar[str]
    journal: ClassVar[Callable[..., Journal]]
    """Opens a journal at a path."""
    side_files: ClassVar[tuple[str, ...]] = ()
    """Suffixes of files that belong to the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, *, readonly: bool = False) -> Journal:
        return type(self).journal(self.path, readonly=readonly)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.path.absolute()}"

    @property
    def backup_path(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def backup_location(self) -> str:
        return str(self.backup_path)

    def exists(self) -> bool:
        return self.path.exists()

    def backup_at(self) -> float | None:
        try:
            return self.backup_path.stat().st_mtime
        except FileNotFoundError:
            return None

    def diagnose(self, until: float) -> str:
        """Return the first damage that reading all facts finds."""
        try:
            with self.open(readonly=True) as journal:
                for _ in journal.read():
                    if time.monotonic() > until:
                        return UNFINISHED
        except JournalError as error:
            return str(error).partition("\n")[0]
        return OK

    def backup_length(self) -> int | None:
        if not self.backup_path.exists():
            return None
        with type(self).journal(self.backup_path, readonly=True) as backup:
            for _ in backup.read():
                pass
            return len(backup)

    def restore(self) -> None:
        if not self.backup_path.exists():
            raise NotFound(f"there is no backup at {self.backup_path}")
        for suffix in (*self.side_files, ""):
            old = self.path.with_name(self.path.name + suffix)
            if old.exists():
                old.replace(self.path.with_name(f"{self.path.name}{DAMAGED_SUFFIX}{suffix}"))
        with replacement(self.path, durable=True) as temporary:
            shutil.copyfile(self.backup_path, temporary)
