"""Integrity check of an SQLite journal, concurrently with appends and limited in time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from weft.history.journal.base import CHECK_TIMEOUT_S, UNFINISHED, Health

MAX_FULL_CHECK_BYTES: Final = 64 << 20
"""Larger files get the quick check, which does not compare indexes with tables."""
CLOCK_INTERVAL_STEPS: Final = 1000
"""SQLite instructions between two checks of the time limit."""


def health(path: Path, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
    size, pending = _size(path), _size(path.with_name(f"{path.name}-wal"))
    return Health(size, pending, _check(path, size, timeout_s))


def _check(path: Path, size: int, timeout_s: float) -> str:
    pragma = "integrity_check" if size <= MAX_FULL_CHECK_BYTES else "quick_check"
    until = time.monotonic() + timeout_s
    try:
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    except sqlite3.Error as error:
        return str(error)
    try:
        db.set_progress_handler(lambda: time.monotonic() > until, CLOCK_INTERVAL_STEPS)
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
