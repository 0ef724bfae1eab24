"""The contract of journals, tested on every store."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from weft.errors import JournalError, NotFound
from weft.history.journal import Journal, MemoryJournal, open_journal, store_at
from weft.history.journal.__main__ import EXIT_TRY_LATER
from weft.model import Exited, Fact, Gpu, Job, KeyChanged, Node, NodeJoined, Profile, Start, Started, Submitted, Wake
from weft.scheduling.core.state.state import State

FACTS: tuple[Fact, ...] = (
    NodeJoined(0.0, Node("n0", (Gpu("V100", 16384), Gpu()))),
    Submitted(0.1, Job("a", gpus=2, profile=Profile("vgg16", 0.3, 0.1, 0.1, 0.1), command=("python", "train.py"))),
    Start(0.1, "a", 1, (("n0", (0, 1)),)),
    Started(3.0, "a", 1),
    Exited(0.1 + 0.2, "a", 1, "done", 0.0, 0),
)
ON_DISK = ("jsonl", "db", "sqlite")
STORES = (*ON_DISK, "postgresql")

Open = Callable[[], Journal]


def new_url(kind: str, request: pytest.FixtureRequest, name: str = "journal") -> str:
    """Return where a journal may be made: a file in the test's folder, or an empty schema of a real PostgreSQL."""
    if kind in ON_DISK:
        return str(request.getfixturevalue("tmp_path") / f"{name}.{kind}")
    return str(request.getfixturevalue("database").schema_url())


@pytest.fixture(params=["memory", *STORES])
def new(request: pytest.FixtureRequest) -> Open:
    """Makes one empty journal of each kind."""
    kind = request.param
    if kind == "memory":
        return MemoryJournal
    url = new_url(kind, request)
    return lambda: open_journal(url)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    """Where no journal is yet, in each kind of store."""
    return new_url(request.param, request)


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


def test_facts_are_there_after_reopening(url: str) -> None:
    for i in range(len(FACTS)):
        with open_journal(url) as journal:
            assert len(journal) == i
            journal.append(FACTS[i])
    with open_journal(url) as journal:
        assert list(journal.read()) == list(FACTS)
        assert journal.torn is None


def test_an_append_that_cannot_be_written_adds_nothing(url: str) -> None:
    with open_journal(url) as journal:
        journal.append(Wake(0.0))
        with pytest.raises(JournalError, match="must be finite"):
            journal.append(Wake(1.0), Wake(float("nan")))
        journal.append(Wake(2.0))
        assert list(journal.read()) == [Wake(0.0), Wake(2.0)]


def test_a_reader_changes_nothing_and_sees_a_live_journal(url: str) -> None:
    with open_journal(url) as journal:
        journal.append(*FACTS)
        journal.sync()
        with open_journal(url, readonly=True) as reader:
            assert list(reader.read()) == list(FACTS)
            with pytest.raises(JournalError, match="reading only"):
                reader.append(Wake(0.0))


def test_a_reader_does_not_make_the_file(path: Path) -> None:
    with pytest.raises(JournalError, match="does not exist"):
        open_journal(path, readonly=True)
    assert not path.exists()


def test_a_second_writer_is_refused(url: str) -> None:
    def write_beside(first: Journal) -> None:
        with open_journal(url) as second:
            first.append(Wake(1.0))
            second.append(Wake(2.0))

    with open_journal(url) as journal:
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


# ---- maintenance: compact, backup, check, name, url


def state_of(facts: Iterable[Fact]) -> dict[str, Any]:
    state = State()
    for fact in facts:
        state.apply(fact)
    return {
        "jobs": {job.id: (job.status, job.run, job.code, job.ended_at) for job in state.jobs.values()},
        "nodes": [(room.node, room.alive) for room in state.resources.nodes],
        "now": state.now,
    }


def test_a_compacted_journal_adds_up_to_the_same_and_positions_go_on(new: Open) -> None:
    with new() as journal:
        assert journal.base == 0
        journal.append(*FACTS)
        before = state_of(journal.read())
        is_compacted = journal.compact()
        assert (journal.base, len(journal)) == (len(FACTS) if is_compacted else 0, len(FACTS))
        assert state_of(journal.read()) == before
        journal.append(Wake(9.0))
        assert list(journal.read(after=len(FACTS))) == [Wake(9.0)]
        assert list(journal.read(after=len(FACTS), page=1)) == [Wake(9.0)]
        assert journal.compact() == is_compacted, "once more, from a snapshot"
        assert (state_of(journal.read())["jobs"], len(journal)) == (before["jobs"], len(FACTS) + 1)


def test_a_journal_is_not_compacted_at_the_instant_of_a_key_change(new: Open) -> None:
    with new() as journal:
        journal.append(*FACTS[:4], KeyChanged(5.0, "a", 2.0))
        assert not journal.compact()
        assert journal.base == 0


def test_a_sound_journal_is_ok_while_it_is_written_to(new: Open) -> None:
    with new() as journal:
        journal.append(*FACTS)
        assert journal.check().check == "ok"
        journal.append(Wake(9.0))
        assert len(journal) == len(FACTS) + 1


def test_a_backup_does_not_disturb_the_writer(new: Open) -> None:
    with new() as journal:
        journal.append(*FACTS)
        journal.backup()
        journal.append(Wake(9.0))
        assert list(journal.read()) == [*FACTS, Wake(9.0)]


@pytest.mark.parametrize("kind", STORES)
def test_a_journal_keeps_its_name_and_no_two_share_one(kind: str, request: pytest.FixtureRequest) -> None:
    names = set()
    for at in (new_url(kind, request), new_url(kind, request, "other")):
        with open_journal(at) as journal:
            first = journal.name
        with open_journal(at) as journal:
            assert journal.name == first
        names.add(first)
    assert len(names) == 2
    assert MemoryJournal().name != MemoryJournal().name


def test_the_url_opens_it_again(path: Path) -> None:
    with open_journal(path) as journal:
        journal.append(*FACTS)
        url = journal.url
    assert url == f"{'jsonl' if path.suffix == '.jsonl' else 'sqlite'}://{path}"
    for same in (url, url.replace(":///", ":////")):
        with open_journal(same, readonly=True) as journal:
            assert list(journal.read()) == list(FACTS)


def test_a_store_goes_back_to_its_last_backup(path: Path) -> None:
    store = store_at(path)
    assert (store.exists(), store.backup_at()) == (False, None)
    with pytest.raises(NotFound, match="there is no backup at"):
        store.restore()
    with store.open() as journal:
        journal.append(*FACTS)
        journal.backup()
        journal.append(Wake(9.0))
    assert store.exists()
    assert store.backup_at() is not None
    assert stat.S_IMODE(Path(store.backup_location).stat().st_mode) == 0o600
    content = b"no journal at all\n" * 500
    path.write_bytes(content)
    assert store.check().check not in ("ok", "unfinished")
    store.restore()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content
    assert store.check().check == "ok"
    with store.open() as journal:
        assert list(journal.read()) == list(FACTS)
        journal.append(Wake(10.0))


def test_a_check_of_a_long_journal_ends_unfinished(url: str) -> None:
    with open_journal(url) as journal:
        journal.append(*(Wake(float(at)) for at in range(5_000)))
        health = journal.check(timeout_s=-1.0)
    assert health.check == "unfinished"
    assert health.size_bytes > 0


def test_maintenance_runs_as_a_process(url: str) -> None:
    def maintain(verb: str) -> int:
        return subprocess.run([sys.executable, "-m", "weft.history.journal", verb, url], check=False).returncode

    with open_journal(url) as journal:
        journal.append(*FACTS)
        journal.sync()
        assert maintain("backup") == 0
        assert store_at(url).backup_at() is not None
        assert maintain("compact") == (EXIT_TRY_LATER if url.endswith(".jsonl") else 0)
        assert maintain("polish") == 2
        assert len(journal) == len(FACTS)


@pytest.mark.parametrize("wrong", ["mysql://host/weft", "file:///tmp/a.db", "://x"])
def test_an_unknown_scheme_lists_the_known(wrong: str) -> None:
    with pytest.raises(JournalError, match=r"use sqlite:///path or jsonl:///path, or postgresql://"):
        open_journal(wrong)


@pytest.mark.parametrize("name", ["journal", "journal.txt", "journal.json"])
def test_an_unknown_kind_of_file_lists_the_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(JournalError, match=r"end it in \.jsonl, \.db or \.sqlite"):
        open_journal(tmp_path / name)


def test_what_is_no_fact_is_refused(url: str) -> None:
    job: Any = Job("a")
    with open_journal(url) as journal, pytest.raises(JournalError, match="not a fact"):
        journal.append(job)
