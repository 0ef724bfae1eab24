"""Checks of a journal's file, and their messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.history.journal.sqlite import SqliteJournal
from weft.history.journal.sqlite.health import health
from weft.model import Wake


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with SqliteJournal(path) as journal:
        journal.append(*(Wake(float(at)) for at in range(5000)))
    return path


def test_a_sound_one_beside_whoever_appends(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.append(Wake(1.0))
        found = health(path)
        journal.append(Wake(2.0))
    assert found.check == "ok"
    assert found.size_bytes == path.stat().st_size > 0
    assert found.pending_bytes > 0


def test_a_page_that_was_written_over(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[2 * 4096 : 3 * 4096] = b"\xff" * 4096
    path.write_bytes(body)
    assert health(path).check not in ("ok", "unfinished")


def test_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_text("hello " * 1000)
    assert health(path).check == "file is not a database"


def test_a_huge_one_is_not_waited_for(path: Path) -> None:
    assert health(path, timeout_s=-1.0).check == "unfinished"
