"""The SQLite journal: durable settings, damaged records, databases that are not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from weft.errors import JournalError
from weft.journal.sqlite import SqliteJournal
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
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert dict(db.execute("SELECT key, value FROM meta")) == {"weft": "journal", "format": "3"}
        assert list(db.execute("SELECT position, body FROM facts")) == [
            (1, '{"fact":"Wake","at":1.0}'),
            (2, '{"fact":"Wake","at":2.0}'),
        ]


@pytest.mark.parametrize("body", ['\'{"fact":"Wa\'', "''", "x'00ff'"])
def test_an_unreadable_last_record_is_cut_and_kept(path: Path, body: str) -> None:
    change(path, f"INSERT INTO facts VALUES (3, {body})")
    with SqliteJournal(path, readonly=True) as reader:
        assert reader.torn is not None
        assert list(reader.read()) == [Wake(1.0), Wake(2.0)]
    with SqliteJournal(path) as journal:
        assert journal.torn is not None
        assert "position 3 was unfinished" in journal.torn
        journal.append(Wake(3.0))
        assert list(journal.read()) == [Wake(1.0), Wake(2.0), Wake(3.0)]
    assert path.with_name("run.db.torn").exists()
    with SqliteJournal(path) as journal:
        assert journal.torn is None


def test_an_unreadable_record_in_the_middle_is_an_error(path: Path) -> None:
    change(path, "UPDATE facts SET body = 'rubbish' WHERE position = 1")
    with SqliteJournal(path) as journal, pytest.raises(JournalError, match=r"run\.db: position 1: not JSON"):
        list(journal.read())


def test_a_missing_record_is_an_error(path: Path) -> None:
    change(path, "DELETE FROM facts WHERE position = 1")
    with SqliteJournal(path) as journal, pytest.raises(JournalError, match="missing between positions 1 and 2"):
        list(journal.read())


def test_a_format_from_the_future(path: Path) -> None:
    change(path, "UPDATE meta SET value = '4' WHERE key = 'format'")
    with pytest.raises(JournalError, match=r"run\.db: written in journal format 4.*\n.*upgrade"):
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


def test_an_older_journal_is_read_and_marked_as_soon_as_it_may_be_written_to(path: Path) -> None:
    change(path, "UPDATE meta SET value = '1' WHERE key = 'format'")
    change(path, "DROP TABLE snapshot")
    with SqliteJournal(path, readonly=True) as reader:
        assert len(list(reader.read())) == 2
    with SqliteJournal(path) as journal:
        journal.append(Wake(3.0))
        assert len(list(journal.read())) == 3
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == ("3",)
