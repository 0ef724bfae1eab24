"""A copy of the journal in the same database, against damage by hand. Backups of the database itself are its own."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import NotFound
from weft.history.journal.postgres.journal import LENGTH
from weft.history.journal.postgres.session import Session

TABLES: Final = ("meta", "facts", "snapshot")
DAMAGED: Final = "weft_damaged_"
KEYS: Final = {"meta": "key", "facts": "position", "snapshot": "position"}


def back_up(url: str) -> None:
    """Replace the last copy atomically, concurrently with appends."""
    session = Session(url, timeout_s=0.0)
    try:
        with session.transaction("back up", repeatable=True) as db:
            for table in TABLES:
                db.execute(f"DROP TABLE IF EXISTS weft_backup_{table}")
                db.execute(f"CREATE TABLE weft_backup_{table} AS TABLE weft_{table}")
            db.execute("INSERT INTO weft_backup_meta VALUES ('backup_at', extract(epoch FROM clock_timestamp())::text)")
    finally:
        session.close()


def backup_at(session: Session) -> float | None:
    if not _has_backup(session.rows("read", "SELECT to_regclass('weft_backup_meta') IS NOT NULL")):
        return None
    ((at,),) = session.rows("read", "SELECT value FROM weft_backup_meta WHERE key = 'backup_at'")
    return float(at)


def length(session: Session) -> int:
    """Return the number of facts ever appended before the copy was made."""
    return int(session.rows("read", LENGTH.format("weft_backup_"))[0][0])


def restore(url: str) -> None:
    """Replace the journal by the copy, and keep the replaced tables under other names. Servers lose their lease."""
    session = Session(url, timeout_s=0.0)
    try:
        with session.transaction("restore") as db:
            if not _has_backup(db.execute("SELECT to_regclass('weft_backup_meta') IS NOT NULL").fetchall()):
                raise NotFound(f"there is no backup at {session.where}")
            db.execute("UPDATE weft_leader SET epoch = epoch + 1, holder = '', address = ''")
            for table in TABLES:
                _replace(db, table)
            db.execute("DELETE FROM weft_meta WHERE key = 'backup_at'")
    finally:
        session.close()


def _replace(db: Any, table: str) -> None:
    key = KEYS[table]
    db.execute(f"DROP TABLE IF EXISTS {DAMAGED}{table}")
    if db.execute(f"SELECT to_regclass('weft_{table}') IS NOT NULL").fetchone()[0]:
        db.execute(f"CREATE TABLE {DAMAGED}{table} AS TABLE weft_{table}")
        db.execute(f"DROP TABLE weft_{table}")
    db.execute(f"CREATE TABLE weft_{table} AS TABLE weft_backup_{table}")
    for (column,) in db.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        (f"weft_{table}",),
    ).fetchall():
        db.execute(f"ALTER TABLE weft_{table} ALTER COLUMN {column} SET NOT NULL")
    db.execute(f"ALTER TABLE weft_{table} ADD PRIMARY KEY ({key})")


def _has_backup(found: list[Any]) -> bool:
    return bool(found[0][0])
