"""A journal is made shorter while it is written to; what it adds up to stays the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.builders import Rig, grid
from support.state_checks import snapshot
from weft.history.journal.sqlite import SqliteJournal
from weft.history.journal.sqlite.compaction import compact
from weft.model import Exited, Job, Started, Submitted
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.placements.packed import Packed
from weft.scheduling.policies.priority import Priority

COMPACT = "import sys; from weft.history.journal.sqlite.compaction import compact; compact(sys.argv[1])"


def busy(jobs: int, seed: int = 1) -> Rig:
    """A queue that has seen some of everything."""
    chance, rig = random.Random(seed), Rig("priority", grid(2, 8))
    for number in range(jobs):
        after = (f"j{number - 1}",) if number % 7 == 6 else ()
        rig.submit(Job(f"j{number}", chance.choice([1, 2, 4]), priority=chance.randrange(3), retries=1, after=after))
        for job in list(rig.state.active.values()):
            if job.status == "starting":
                rig.tell(Started(rig.now, job.id, job.run))
            elif chance.random() < 0.5:
                how = chance.choice(["done", "done", "failed", "requeued"])
                rig.tell(Exited(rig.now, job.id, job.run, how, code=1))  # type: ignore[arg-type]
        rig.later(1.0)
    return rig


def restored(path: Path) -> Scheduler:
    scheduler = Scheduler(Priority(), Packed())
    with SqliteJournal(path, readonly=True) as journal:
        scheduler.replay(journal.read())
    return scheduler


def test_it_adds_up_to_the_same_and_is_shorter(tmp_path: Path) -> None:
    path, rig = tmp_path / "a.db", busy(200)
    with SqliteJournal(path) as journal:
        journal.append(*rig.facts)
        assert compact(path)
        assert len(list(journal.read())) < len(rig.facts)
        assert len(journal) == len(rig.facts), "positions go on"
        again = Scheduler(Priority(), Packed())
        again.replay(journal.read())
        assert snapshot(again.state) == snapshot(rig.state)
        more = rig.submit(Job("late"))
        journal.append(Submitted(rig.now, Job("late")), *more)
        assert list(journal.read(len(rig.facts) - 1 - len(more))) == [Submitted(rig.now, Job("late")), *more]
    assert compact(path), "once more, from a snapshot"
    assert snapshot(restored(path).state) == snapshot(rig.state)


def test_it_goes_on_beside_whoever_appends(tmp_path: Path) -> None:
    path, rig = tmp_path / "a.db", busy(400)
    half = len(rig.facts) // 2
    with SqliteJournal(path) as journal:
        journal.append(*rig.facts[:half])
        beside = subprocess.Popen([sys.executable, "-c", COMPACT, str(path)])
        for fact in rig.facts[half:]:
            journal.append(fact)
        assert beside.wait(60) == 0
    assert snapshot(restored(path).state) == snapshot(rig.state)


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_any_moment_it_changes_nothing(tmp_path: Path, seed: int) -> None:
    path, rig = tmp_path / "a.db", busy(150)
    with SqliteJournal(path) as journal:
        journal.append(*rig.facts)
    beside = subprocess.Popen([sys.executable, "-c", COMPACT, str(path)])
    time.sleep(random.Random(seed).uniform(0.05, 0.3))
    os.kill(beside.pid, signal.SIGKILL)
    beside.wait()
    assert snapshot(restored(path).state) == snapshot(rig.state)
    assert compact(path)
    assert snapshot(restored(path).state) == snapshot(rig.state)
