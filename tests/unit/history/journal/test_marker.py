"""The marker of a journal never leads, finds what is missing, and restores the longer of journal and backup."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import JournalDamaged, NotFound
from weft.history.journal import open_journal, store_at
from weft.history.journal.marker import FILE, Marker
from weft.model import Paused, Wake

ENDLESS = """
import sys
from pathlib import Path
from weft.history.journal import open_journal
from weft.history.journal.marker import Marker
from weft.model import Wake
folder = Path(sys.argv[1])
with open_journal(folder / sys.argv[2]) as journal:
    marker = Marker(folder)
    marker.begin(journal, 0)
    print(flush=True)
    while True:
        journal.append(Wake(float(len(journal))))
        journal.sync()
        marker.advance(len(journal), len(journal))
"""


def written(folder: Path, facts: int, name: str = "state.db") -> Path:
    """A journal of this many facts, with its marker."""
    with open_journal(folder / name) as journal:
        marker = Marker(folder)
        marker.begin(journal, 0)
        for number in range(facts):
            journal.append(Wake(float(number)))
            marker.advance(len(journal), 7)
        marker.close()
    return folder / name


def loss(path: Path) -> str:
    return Marker(path.parent).loss(store_at(path), path.parent / "jobs")


def test_a_whole_journal_and_a_new_one_lack_nothing(tmp_path: Path) -> None:
    assert loss(tmp_path / "state.db") == ""
    path = written(tmp_path, 5)
    assert loss(path) == ""
    assert loss(written(tmp_path, 3, "other.db")) == "", "another place is another journal"


@pytest.mark.parametrize("name", ["state.db", "state.jsonl"])
def test_a_shorter_a_missing_and_another_journal(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, 3, name)
    older = tmp_path / "older"
    shutil.copy(path, older)
    with open_journal(path) as journal:
        marker = Marker(tmp_path)
        marker.begin(journal, 0)
        journal.append(Wake(9.0))
        journal.sync()
        marker.advance(len(journal), 0)
    shutil.copy(older, path)
    assert "is cut off or an older copy: it has 3 facts, and had 4" in loss(path)
    path.unlink()
    assert "is gone: it had 4 facts" in loss(path)
    path.with_name(f"{name}.name").unlink(missing_ok=True)
    with open_journal(path) as journal:
        journal.append(*(Wake(float(number)) for number in range(9)))
    assert "is not the one that was here: it has 9 facts, that one had 4" in loss(path)


@pytest.mark.parametrize("sign", ["jobs/17", "state.db.backup"])
def test_without_a_marker_jobs_and_backups_show_that_there_was_a_journal(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).mkdir(parents=True)
    assert "is empty or gone" in loss(tmp_path / "state.db")
    (tmp_path / "state.db").touch()
    assert "is empty or gone" in loss(tmp_path / "state.db")


@pytest.mark.parametrize("content", [b"", b"0000", b"x" * 80])
def test_a_marker_that_a_power_cut_destroyed_is_none(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, 3)
    (tmp_path / FILE).write_bytes(content)
    assert Marker(tmp_path).read() is None
    assert loss(path) == ""


def test_the_highest_number_of_a_job_survives_the_journal(tmp_path: Path) -> None:
    path = written(tmp_path, 3)
    path.unlink()
    with open_journal(path) as journal:
        assert Marker(tmp_path).begin(journal, 2) == 7


@pytest.mark.parametrize("name", ["state.db", "state.jsonl"])
def test_killed_at_any_moment_the_marker_never_leads(tmp_path: Path, name: str) -> None:
    for number in range(4):
        command = [sys.executable, "-c", ENDLESS, str(tmp_path), name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(random.Random(number).uniform(0.0, 0.1))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        mark = Marker(tmp_path).read()
        with open_journal(tmp_path / name, readonly=True) as journal:
            assert mark is not None
            assert len(journal) - 1 <= mark.facts <= len(journal), "at most the last append is not counted"
        assert loss(tmp_path / name) == ""


def test_the_longer_one_of_journal_and_backup_is_restored(tmp_path: Path) -> None:
    path = written(tmp_path, 4)
    store, marker, paused = store_at(path), Marker(tmp_path), Paused(9.0, "Recovering")
    with pytest.raises(NotFound):
        Marker(tmp_path).restore(store_at(tmp_path / "none.db"))
    whole = marker.restore(store, paused)
    assert (whole.is_whole, whole.facts, whole.backup_of) == (True, 4, "")
    store.backup()
    with open_journal(path) as journal:
        marker.begin(journal, 7)
        journal.append(Wake(5.0), Wake(6.0))
        marker.advance(len(journal), 7)
    path.write_bytes(path.read_bytes()[:-4096])
    restored = marker.restore(store, paused)
    assert (restored.is_whole, restored.facts, restored.lacking) == (False, 4, 2)
    assert restored.backup_of
    assert path.with_name("state.db.damaged").exists()
    with open_journal(path, readonly=True) as journal:
        assert list(journal.read())[4:] == [paused]
    assert loss(path) == ""
    mark = marker.read()
    assert mark is not None
    assert mark.highest_id == 7
    kept = marker.restore(store, paused)
    assert (kept.is_whole, kept.facts, kept.backup_of) == (True, 5, ""), "a second time changes nothing"


def test_a_damaged_backup_replaces_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, 4)
    store = store_at(path)
    store.backup()
    backup = Path(store.backup_location)
    content = bytearray(backup.read_bytes())
    content[content.index(b'"Wake"') + 1] ^= 1
    backup.write_bytes(content)
    assert Marker(tmp_path).restore(store).is_whole
    path.write_bytes(b"rubbish" * 1000)
    with pytest.raises(JournalDamaged, match=r"backup: position [1-4]: the fact is damaged"):
        Marker(tmp_path).restore(store)
    assert path.read_bytes() == b"rubbish" * 1000
