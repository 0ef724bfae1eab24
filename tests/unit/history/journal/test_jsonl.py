"""The text journal: its bytes, and what a crash may leave of them."""

from __future__ import annotations

import stat
import zlib
from pathlib import Path

import pytest

from weft.errors import JournalError
from weft.history.journal.codec import seal
from weft.history.journal.jsonl import HEADER, JsonlJournal
from weft.model import Exited, Wake

BEFORE = HEADER + b'{"fact":"Wake","at":1.0,"crc":"d94bda35"}\n'
LAST = b'{"fact":"Exited","at":2.5,"job":"a\\u00e9","run":1,"how":"done","crc":"1bb199f4"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def torn_copy(path: Path) -> bytes:
    beside = path.with_name("run.jsonl.torn")
    if not beside.exists():
        return b""
    assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    return beside.read_bytes()


def test_the_bytes(path: Path) -> None:
    with JsonlJournal(path) as journal:
        journal.append(Wake(1.0), Exited(2.5, "aé", 1, "done"))
    assert path.read_bytes() == BEFORE + LAST


def test_appends_wait_for_flush(path: Path) -> None:
    with JsonlJournal(path) as journal:
        journal.append(Wake(1.0))
        assert path.read_bytes() == HEADER
        assert len(journal) == 1
        journal.flush()
        assert path.read_bytes() == BEFORE


def test_a_long_run_does_not_gather_in_memory(path: Path) -> None:
    with JsonlJournal(path) as journal:
        for i in range(10_000):
            journal.append(Wake(float(i)))
        assert path.stat().st_size > 100_000


@pytest.mark.parametrize("kept", range(len(LAST)))
def test_a_last_line_cut_at_any_byte(path: Path, kept: int) -> None:
    path.write_bytes(BEFORE + LAST[:kept])
    with JsonlJournal(path, readonly=True) as reader:
        assert list(reader.read()) == [Wake(1.0)]
        assert bool(reader.torn) == bool(kept)
    assert path.read_bytes() == BEFORE + LAST[:kept]

    with JsonlJournal(path) as journal:
        assert path.read_bytes() == BEFORE
        assert torn_copy(path) == LAST[:kept]
        if kept:
            assert journal.torn == f"{path}: line 3 was unfinished; cut off its {kept} bytes, saved in run.jsonl.torn"
        else:
            assert journal.torn is None
        journal.append(Wake(3.0))
        assert list(journal.read()) == [Wake(1.0), Wake(3.0)]
    with JsonlJournal(path) as journal:
        assert journal.torn is None


@pytest.mark.parametrize("kept", range(len(HEADER)))
def test_a_header_cut_at_any_byte(path: Path, kept: int) -> None:
    path.write_bytes(HEADER[:kept])
    with JsonlJournal(path, readonly=True) as reader:
        assert list(reader.read()) == []
    with JsonlJournal(path) as journal:
        assert bool(journal.torn) == bool(kept)
        journal.append(Wake(1.0))
    assert path.read_bytes() == BEFORE
    assert torn_copy(path) == HEADER[:kept]


@pytest.mark.parametrize("line", [b'{"fact":"Wake","a\n', b"\x00\x00\x00\n", b"\xff\xfe\n", b"\n", b"17\n"])
def test_a_last_line_of_rubbish_is_cut(path: Path, line: bytes) -> None:
    path.write_bytes(BEFORE + line)
    with JsonlJournal(path) as journal:
        assert journal.torn is not None
        assert list(journal.read()) == [Wake(1.0)]
    assert path.read_bytes() == BEFORE
    assert torn_copy(path) == line


@pytest.mark.parametrize("line", [b'{"fact":"Wake","a\n', b"\xff\xfe\n", b"\n", b'{"fact":"Wake","at":2.0}\n'])
def test_rubbish_in_the_middle_is_an_error_with_its_line(path: Path, line: bytes) -> None:
    path.write_bytes(BEFORE + line + LAST)
    with JsonlJournal(path) as journal:
        assert journal.torn is None
        with pytest.raises(JournalError, match=r"run\.jsonl:3: "):
            list(journal.read())
    assert path.read_bytes() == BEFORE + line + LAST


def test_a_whole_last_line_from_a_newer_weft_is_not_cut(path: Path) -> None:
    body = b'{"fact":"Teleported","at":9.0'
    line = body + b',"crc":"%08x"}\n' % zlib.crc32(body, 2)
    path.write_bytes(BEFORE + line)
    with JsonlJournal(path) as journal, pytest.raises(JournalError, match=r"run\.jsonl:3: unknown fact.*\n.*upgrade"):
        list(journal.read())
    assert path.read_bytes() == BEFORE + line


def test_another_format(path: Path) -> None:
    content = b'{"weft":"journal","format":3,"packed":true}\n\x00\x01'
    path.write_bytes(content)
    for readonly in (True, False):
        with pytest.raises(JournalError, match=r"run\.jsonl:1: written in journal format 3.*\n.*version"):
            JsonlJournal(path, readonly=readonly)
    assert path.read_bytes() == content


def test_a_file_longer_than_one_chunk(path: Path) -> None:
    line = seal(Wake(1.0), 1).encode() + b"\n"
    path.write_bytes(HEADER + line * 50_000 + line[:-1])
    with JsonlJournal(path) as journal:
        assert len(journal) == 50_000
    assert path.stat().st_size == len(HEADER) + len(line) * 50_000


def test_a_device_is_no_journal() -> None:
    with pytest.raises(JournalError, match="not a regular file"):
        JsonlJournal("/dev/full")
