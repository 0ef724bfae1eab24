"""Parts of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.node.engine.output import logs
from weft.node.engine.output.logs import MISSING, read_part


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def test_parts_add_up_to_the_whole(path: Path) -> None:
    found, at = b"", 0
    while part := read_part(str(path), at, max_bytes=4).text:
        found, at = found + part, at + len(part)
    assert found == path.read_bytes()


@pytest.mark.parametrize(("lines", "start"), [(1, 8), (2, 4), (3, 0), (9, 0)])
def test_the_last_lines(path: Path, lines: int, start: int) -> None:
    part = read_part(str(path), lines=lines)
    assert (part.offset, part.text, part.size) == (start, path.read_bytes()[start:], 14)


def test_a_log_that_was_truncated_is_read_from_its_start(path: Path) -> None:
    part = read_part(str(path), 100)
    assert (part.offset, part.next_offset) == (0, 14)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert read_part(str(tmp_path / "none")) is MISSING


def test_what_is_removed_while_it_is_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"\0" * 4096 + b"kept\n")
    begins = iter([0, 4096])  # the start of the log is removed between the two looks at it
    monkeypatch.setattr(logs, "first_kept", lambda _handle, _size: next(begins))
    part = logs.read_part(str(path))
    assert (part.text, part.offset, part.next_offset) == (b"kept\n", 4096, 4101)
