"""A copy of a journal as it is now, beside whoever appends to it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from weft.errors import JournalError
from weft.journal.files import open_private

SUFFIX: Final = ".backup"


def backup_of(path: Path) -> Path:
    """Where it is kept."""
    return path.with_name(path.name + SUFFIX)


def back_up(path: Path) -> None:
    """Replaces the last copy, whole or not at all. One read of everything: writers go on meanwhile."""
    beside = path.with_name(f"{path.name}{SUFFIX}.tmp")
    beside.unlink(missing_ok=True)
    os.close(open_private(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    source = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    target = sqlite3.connect(beside)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
    except sqlite3.Error as error:
        beside.unlink(missing_ok=True)
        raise JournalError(f"cannot back up {path}: {error}") from None
    finally:
        source.close()
        target.close()
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    beside.replace(backup_of(path))
