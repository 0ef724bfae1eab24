"""The common part of stores in files: the backup next to the file, and restoring it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar, Final

from weft.errors import NotFound
from weft.inputs.atomic import replacement

BACKUP_SUFFIX: Final = ".backup"
DAMAGED_SUFFIX: Final = ".damaged"


class FileStore:
    """A journal in one file, possibly with side files."""

    scheme: ClassVar[str]
    side_files: ClassVar[tuple[str, ...]] = ()
    """Suffixes of files that belong to the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.path.absolute()}"

    @property
    def backup_path(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

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

    def restore(self) -> None:
        if not self.backup_path.exists():
            raise NotFound(f"there is no backup at {self.backup_path}")
        for suffix in (*self.side_files, ""):
            old = self.path.with_name(self.path.name + suffix)
            if old.exists():
                old.replace(self.path.with_name(f"{self.path.name}{DAMAGED_SUFFIX}{suffix}"))
        with replacement(self.path, durable=True) as temporary:
            shutil.copyfile(self.backup_path, temporary)
