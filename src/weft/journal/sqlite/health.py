"""Check whether the file of a journal is sound, while its writer appends, for a few seconds at most."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from weft.journal.base import CHECK_S, UNFINISHED, Health

SMALL_BYTES: Final = 64 << 20
"""Up to this size everything is looked at; beyond it, not whether indexes and tables agree."""
STEPS: Final = 1000
"""Instructions of SQLite between two looks at the clock."""


def health(path: Path, longest_s: float = CHECK_S) -> Health:
    size, pending = _size(path), _size(path.with_name(f"{path.name}-wal"))
    return Health(size, pending, _check(path, size, longest_s))


def _check(path: Path, size: int, longest_s: float) -> str:
    pragma = "integrity_check" if size <= SMALL_BYTES else "quick_check"
    until = time.monotonic() + longest_s
    try:
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    except sqlite3.Error as error:
        return str(error)
    try:
        db.set_progress_handler(lambda: time.monotonic() > until, STEPS)
        found = [str(row[0]) for row in db.execute(f"PRAGMA {pragma}(1)")]
    except sqlite3.Error as error:
        return UNFINISHED if str(error) == "interrupted" else str(error)
    finally:
        db.close()
    return "; ".join(found)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
