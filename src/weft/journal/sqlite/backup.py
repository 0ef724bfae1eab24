"""Online backup of an SQLite journal."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from weft.errors import JournalError
from weft.journal.files import open_private


def back_up(path: Path, copy: Path) -> None:
    """Replace the last copy atomically, concurrently with appends."""
    partial = copy.with_name(f"{copy.name}.tmp")
    partial.unlink(missing_ok=True)
    os.close(open_private(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    source = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    target = sqlite3.connect(partial)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing partial it
    except sqlite3.Error as error:
        partial.unlink(missing_ok=True)
        raise JournalError(f"cannot back up {path}: {error}") from None
    finally:
        source.close()
        target.close()
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    partial.replace(copy)
