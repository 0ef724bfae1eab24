"""Everything at once: a real cluster whose server, agents and jobs are killed at random and whose connections are cut,
held up and delayed, while jobs of one GPU and gangs run. Afterwards no job is lost, none ran twice at once, every exit
code is right, no process is left, and the journal agrees with the scheduler.

WEFT_STORM_SEED=N plays another seed, WEFT_STORM_ROUNDS=N more or fewer rounds.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from storm.book import Book
from storm.feeder import Feeder
from storm.verdict import judge, left_over, unconfirmed
from storm.weather import LEASE_S, MARGIN_S, Storm, pause
from support.live_cluster import OVER, Cluster, cluster
from support.local_scheduler import until
from weft.model import Exited, NodeLost, Submitted

SEED = int(os.environ.get("WEFT_STORM_SEED", "4"))
ROUNDS = int(os.environ.get("WEFT_STORM_ROUNDS", "12"))
SOAK_ROUNDS = 80
NODES = ("n1", "n2", "n3")
MAX_WAITING = 6
"""Jobs that have not begun, beyond which no more are submitted: after the storm, all of them must still end."""
PATIENCE_S = 300.0
"""After everything works again, on a machine that has other things to do."""


@pytest.mark.soak
def test_a_storm() -> None:
    play(SEED, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(101, 104))
def test_a_long_storm(seed: int) -> None:
    play(seed, SOAK_ROUNDS)


def play(seed: int, rounds: int) -> None:
    print(f"WEFT_STORM_SEED={seed} plays this again")
    began = time.monotonic()

    def note(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} {text}")

    options = ("--policy", "balanced", "--min-run", "0", "--lease", str(LEASE_S))
    with cluster(options=options, settings={"margin_s": MARGIN_S}) as here:
        book = Book(here.root / "book")
        book.path.touch()
        chance = Random(seed)
        storm, feeder = Storm(here, book, chance, note), Feeder(here, book)
        try:
            with _told_of(here, book):
                storm.open(*NODES)
                until(lambda: here.connected() == set(NODES))
                _blow(storm, feeder, chance, rounds)
                _settle(here, storm, feeder, note)
                judge(here, book, feeder.jobs, feeder.rows())
        finally:
            feeder.close()
            here.close()
            storm.close()
        until(lambda: not left_over(here.root))
        note("nobody is left")


def _blow(storm: Storm, feeder: Feeder, chance: Random, rounds: int) -> None:
    feeder.invent(chance, 8)
    until(storm.book.begins)
    for _ in range(rounds):
        storm.blow()
        count = chance.randint(1, 2)
        feeder.invent(chance, count if feeder.waiting < MAX_WAITING else 0)
        pause(chance)


def _settle(here: Cluster, storm: Storm, feeder: Feeder, note: Callable[[str], None]) -> None:
    storm.calm()
    note("everything works again")
    until(lambda: here.call("nodes").returncode == 0, PATIENCE_S)  # the server may have just been started
    until(lambda: feeder.is_done and here.connected() == set(NODES), PATIENCE_S)
    until(lambda: (rows := feeder.rows()) and all(row["status"] in OVER for row in rows.values()), PATIENCE_S)
    exits = Counter(fact.how for fact in here.facts() if isinstance(fact, Exited))
    lost = sum(isinstance(fact, NodeLost) for fact in here.facts())
    note(f"{len(feeder.jobs)} jobs have ended; nodes lost: {lost}; runs: {dict(exits)}")
    until(lambda: not unconfirmed(here.workers) and not storm.book.living(), PATIENCE_S)


@contextmanager
def _told_of(here: Cluster, book: Book) -> Iterator[None]:
    """Print what happened if the storm fails."""
    try:
        yield
    except BaseException:
        print(*(fact for fact in here.facts() if not isinstance(fact, Submitted)), sep="\n")
        print(book.path.read_text())
        for log in (here.folder / "server.log", *here.workers.glob("*/worker.log"), *here.root.glob("*.out")):
            print(f"---- {log.name}\n{log.read_text()[-5000:]}")
        print(*unconfirmed(here.workers), sep="\n")
        raise
