"""Online backup of an SQLite journal."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from weft.errors import JournalError
from weft.inputs.atomic import replacement


def back_up(path: Path, copy: Path) -> None:
    """Replace the last copy atomically, concurrently with appends."""
    with replacement(copy, durable=True) as temporary:
        source = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        target = sqlite3.connect(temporary)
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log next to it
        except sqlite3.Error as error:
            raise JournalError(f"cannot back up {path}: {error}") from None
        finally:
            source.close()
            target.close()
