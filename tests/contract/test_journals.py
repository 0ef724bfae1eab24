"""What holds for every journal, whatever it is kept in."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.errors import JournalError
from weft.journal import Journal, MemoryJournal, open_journal
from weft.model import Exited, Fact, Gpu, Job, Node, NodeJoined, Profile, Start, Started, Submitted, Wake

FACTS: tuple[Fact, ...] = (
    NodeJoined(0.0, Node("n0", (Gpu("V100", 16384), Gpu()))),
    Submitted(0.1, Job("a", gpus=2, profile=Profile("vgg16", 0.3, 0.1, 0.1, 0.1), command=("python", "train.py"))),
    Start(0.1, "a", 1, (("n0", (0, 1)),)),
    Started(3.0, "a", 1),
    Exited(0.1 + 0.2, "a", 1, "done", 0.0, 0),
)
ON_DISK = ("jsonl", "db", "sqlite")

Open = Callable[[], Journal]


@pytest.fixture(params=["memory", *ON_DISK])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Makes one empty journal of each kind."""
    kind = request.param
    return MemoryJournal if kind == "memory" else lambda: open_journal(tmp_path / f"journal.{kind}")


@pytest.fixture(params=ON_DISK)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"journal.{request.param}"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_reads_what_was_appended_in_order(new: Open) -> None:
    with new() as journal:
        assert list(journal.read()) == []
        journal.append(FACTS[0])
        journal.append(*FACTS[1:])
        assert list(journal.read()) == list(FACTS)
        assert journal.torn is None


def test_position_says_where_to_read_on(new: Open) -> None:
    with new() as journal:
        journal.append(*FACTS[:3])
        position = len(journal)
        assert position == 3
        journal.append(*FACTS[3:])
        assert list(journal.read(after=position)) == list(FACTS[3:])
        assert list(journal.read(after=len(journal))) == []
        assert list(journal.read(after=999)) == []


def test_appending_nothing_does_nothing(new: Open) -> None:
    with new() as journal:
        journal.append()
        assert len(journal) == 0


def test_a_read_sees_the_facts_there_were(new: Open) -> None:
    with new() as journal:
        journal.append(Wake(0.0))
        reading = journal.read()
        journal.append(Wake(1.0))
        assert list(reading) == [Wake(0.0)]


def test_a_closed_journal_takes_no_more(new: Open) -> None:
    journal = new()
    journal.append(Wake(0.0))
    journal.sync()
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(Wake(1.0))
    assert len(journal) == 1


def test_many_facts(new: Open) -> None:
    facts = [Wake(float(i)) for i in range(5_000)]
    with new() as journal:
        for fact in facts[:100]:
            journal.append(fact)
        journal.append(*facts[100:])
        assert list(journal.read()) == facts
        assert list(journal.read(after=1_999)) == facts[1_999:]


def test_facts_are_there_after_reopening(path: Path) -> None:
    for i in range(len(FACTS)):
        with open_journal(path) as journal:
            assert len(journal) == i
            journal.append(FACTS[i])
    with open_journal(path) as journal:
        assert list(journal.read()) == list(FACTS)
        assert journal.torn is None


def test_an_append_that_cannot_be_written_adds_nothing(path: Path) -> None:
    with open_journal(path) as journal:
        journal.append(Wake(0.0))
        with pytest.raises(JournalError, match="must be finite"):
            journal.append(Wake(1.0), Wake(float("nan")))
        journal.append(Wake(2.0))
        assert list(journal.read()) == [Wake(0.0), Wake(2.0)]


def test_a_reader_changes_nothing_and_sees_a_live_journal(path: Path) -> None:
    with open_journal(path) as journal:
        journal.append(*FACTS)
        journal.sync()
        with open_journal(path, readonly=True) as reader:
            assert list(reader.read()) == list(FACTS)
            with pytest.raises(JournalError, match="read only"):
                reader.append(Wake(0.0))


def test_a_reader_does_not_make_the_file(path: Path) -> None:
    with pytest.raises(JournalError, match="does not exist"):
        open_journal(path, readonly=True)
    assert not path.exists()


def test_a_second_writer_is_refused(path: Path) -> None:
    def write_beside(first: Journal) -> None:
        with open_journal(path) as second:
            first.append(Wake(1.0))
            second.append(Wake(2.0))

    with open_journal(path) as journal:
        journal.append(Wake(0.0))
        with pytest.raises(JournalError, match="another process"):
            write_beside(journal)
        journal.append(Wake(3.0))
        assert Wake(2.0) not in journal.read()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_private_from_the_start(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with open_journal(path) as journal:
            journal.append(*FACTS)
            journal.sync()
            modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_no_descriptor_is_left_open(path: Path) -> None:
    before = open_descriptors()
    for _ in range(3):
        with open_journal(path) as journal:
            journal.append(*FACTS)
            next(journal.read())
    open_journal(path, readonly=True).close()
    path.write_bytes(b"neither a database nor a journal\n" * 100)
    for readonly in (True, False):
        with pytest.raises(JournalError):
            open_journal(path, readonly=readonly)
    assert open_descriptors() == before


def test_a_foreign_file_is_refused_and_left_alone(path: Path) -> None:
    for content in (b"dear diary\nnothing happened\n", b"dear diary", b"\x00\xff" * 5_000, b'{"a":1}\n'):
        path.write_bytes(content)
        with pytest.raises(JournalError, match=path.name):
            open_journal(path)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]


def test_an_empty_file_becomes_a_journal(path: Path) -> None:
    path.touch()
    with open_journal(path, readonly=True) as journal:
        assert list(journal.read()) == []
    with open_journal(path) as journal:
        journal.append(*FACTS)
        assert list(journal.read()) == list(FACTS)


def test_places_where_no_journal_can_be(path: Path) -> None:
    with pytest.raises(JournalError, match="nowhere does not exist"):
        open_journal(path.parent / "nowhere" / path.name)
    path.mkdir()
    with pytest.raises(JournalError, match="directory"):
        open_journal(path)


@pytest.mark.parametrize("name", ["journal", "journal.txt", "journal.json"])
def test_an_unknown_kind_of_file_lists_the_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(JournalError, match=r"end it in \.jsonl, \.db or \.sqlite"):
        open_journal(tmp_path / name)


def test_what_is_no_fact_is_refused(path: Path) -> None:
    job: Any = Job("a")
    with open_journal(path) as journal, pytest.raises(JournalError, match="not a fact"):
        journal.append(job)
