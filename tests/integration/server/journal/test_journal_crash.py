"""Journals in real processes that are killed, or run out of disk, in the middle of an append."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.history.journal import open_journal
from weft.model import Wake

KINDS = ("jsonl", "db")

ENDLESS = """
import sys
from weft.history.journal import open_journal
from weft.model import Wake
with open_journal(sys.argv[1]) as journal:
    while True:
        journal.append(*(Wake(float(len(journal) + i)) for i in range(7)))
        journal.sync()
        print(len(journal), flush=True)
"""

UNTIL_FULL = """
import resource, sys
from weft.errors import JournalError
from weft.history.journal import open_journal
from weft.model import Wake
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with open_journal(sys.argv[1]) as journal:
    synced = 0
    try:
        while True:
            journal.append(*(Wake(float(len(journal) + i)) for i in range(100)))
            journal.sync()
            synced = len(journal)
    except JournalError as error:
        assert str(error).startswith("cannot "), error
    assert len(journal) == synced, (len(journal), synced)
    assert len(list(journal.read())) == synced
print(synced)
"""


def script(code: str, path: Path) -> list[str]:
    return [sys.executable, "-c", code, str(path)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [1, 5, 40])
def test_killed_while_appending(tmp_path: Path, kind: str, after: int) -> None:
    path = tmp_path / f"journal.{kind}"
    synced = 0
    with subprocess.Popen(script(ENDLESS, path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(after):
            process.stdout.readline()
        process.kill()
        synced = max([7 * after, *map(int, process.stdout.read().split())])
    assert process.returncode == -signal.SIGKILL
    with open_journal(path) as journal:
        facts = list(journal.read())
        assert facts == [Wake(float(i)) for i in range(len(facts))]
        assert len(facts) >= synced
        journal.append(Wake(-1.0))
        assert len(list(journal.read())) == len(facts) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"journal.{kind}"
    done = subprocess.run(script(UNTIL_FULL, path), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    synced = int(done.stdout)
    assert synced > 0
    with open_journal(path) as journal:
        assert journal.torn is None
        assert list(journal.read()) == [Wake(float(i)) for i in range(synced)]
        journal.append(Wake(float(synced)))
