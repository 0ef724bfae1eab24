"""Copy a journal as it is now, while its writer appends to it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from weft.errors import JournalError
from weft.journal.files import open_private


def back_up(path: Path, copy: Path) -> None:
    """Replace the last copy, whole or not at all. Writers go on meanwhile."""
    beside = copy.with_name(f"{copy.name}.tmp")
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
    beside.replace(copy)
