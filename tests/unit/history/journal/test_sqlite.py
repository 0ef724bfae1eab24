"""The SQLite journal: durable settings, damaged records, databases that are not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from weft.errors import JournalError
from weft.history.journal.codec import seal
from weft.history.journal.sqlite import SqliteJournal
from weft.model import Wake


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of two facts."""
    path = tmp_path / "run.db"
    with SqliteJournal(path) as journal:
        journal.append(Wake(1.0), Wake(2.0))
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_the_tables(path: Path) -> None:
    with SqliteJournal(path, readonly=True) as journal:
        name = journal.name
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert dict(db.execute("SELECT key, value FROM meta")) == {"weft": "journal", "format": "1", "name": name}
        assert list(db.execute("SELECT position, body FROM facts")) == [
            (1, seal(Wake(1.0), 1)),
            (2, seal(Wake(2.0), 2)),
        ]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE facts SET body = 'rubbish' WHERE position = 1",
        "UPDATE facts SET body = x'00ff' WHERE position = 1",
        "UPDATE facts SET body = replace(body, '1.0', '1.5') WHERE position = 1",
        "UPDATE facts SET body = (SELECT body FROM facts WHERE position = 2) WHERE position = 1",
    ],
)
def test_a_damaged_record_is_an_error(path: Path, damage: str) -> None:
    change(path, damage)
    with SqliteJournal(path) as journal, pytest.raises(JournalError, match=r"run\.db: position 1: the fact is damaged"):
        list(journal.read())


def test_a_missing_record_is_an_error(path: Path) -> None:
    change(path, "DELETE FROM facts WHERE position = 1")
    with SqliteJournal(path) as journal, pytest.raises(JournalError, match="missing between positions 1 and 2"):
        list(journal.read())


def test_another_format(path: Path) -> None:
    change(path, "UPDATE meta SET value = '3' WHERE key = 'format'")
    with pytest.raises(JournalError, match=r"run\.db: written in journal format 3.*\n.*version"):
        SqliteJournal(path)


@pytest.mark.parametrize(
    "tables", ["CREATE TABLE songs (name)", "CREATE TABLE meta (key, value); CREATE TABLE facts (position, body)"]
)
def test_a_foreign_database_is_refused(tmp_path: Path, tables: str) -> None:
    path = tmp_path / "songs.db"
    change(path, *tables.split(";"))
    with pytest.raises(JournalError, match="not a Weft journal"):
        SqliteJournal(path)


def test_a_damaged_database_is_an_error(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"run\.db"), SqliteJournal(path) as journal:
        list(journal.read())


def test_a_name_with_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=ro#%41.db"
    with SqliteJournal(path) as journal:
        journal.append(Wake(1.0))
    assert path.exists()
