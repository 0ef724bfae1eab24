"""Everything at once: a real cluster whose server, agents and jobs are killed and stopped at random and whose
connections are cut, held up and delayed, while jobs of one GPU, gangs and the replicas of a service run. Afterwards no
job is lost, none ran twice at once, every exit code is right, no process is left, and the journal agrees with the
scheduler.

WEFT_STORM_SEED=N plays another seed, WEFT_STORM_ROUNDS=N more or fewer rounds.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from storm import probe
from storm.book import Book
from storm.feeder import Feeder
from storm.verdict import judge, left_over, unconfirmed
from storm.weather import LEASE_S, MARGIN_S, Storm, pause
from support.running.live_cluster import OVER, Cluster, cluster
from support.running.local_scheduler import until
from support.service_requests import Requests
from weft.model import Exited, NodeLost, Submitted

SEED = int(os.environ.get("WEFT_STORM_SEED", "4"))
ROUNDS = int(os.environ.get("WEFT_STORM_ROUNDS", "12"))
SOAK_ROUNDS = 80
SERVICE_STORM_S = 180.0
REPLICAS = 2
SERVICE = """service: chat
run: exec {python} -IS {probe} {book} serve
memory: 1G
replicas: {{min: {replicas}, max: {replicas}}}
health: {{every: 200ms, start_within: 30s}}
timeouts: {{drain: 2s}}
"""
MIN_ANSWERED = 0.5
"""The share of the requests that are answered while replicas, their nodes and the scheduler fail."""
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


@pytest.mark.soak
@pytest.mark.parametrize("seed", [SEED, 201])
def test_a_storm_with_a_service(seed: int) -> None:
    play(seed, 0, SERVICE_STORM_S)


def play(seed: int, rounds: int, service_s: float = 0.0) -> None:
    """Play this many rounds; or, with a service, as many as fit into these seconds."""
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
                if service_s:
                    _blow_at_service(here, storm, feeder, chance, service_s, note)
                else:
                    _blow(storm, feeder, chance, range(rounds))
                    _settle(here, storm, feeder, note)
                until(lambda: not unconfirmed(here.workers) and not book.living(), PATIENCE_S)
                judge(here, book, feeder.jobs, feeder.rows())
        finally:
            feeder.close()
            here.close()
            storm.close()
        until(lambda: not left_over(here.root))
        note("nobody is left")


def _blow_at_service(
    here: Cluster, storm: Storm, feeder: Feeder, chance: Random, seconds: float, note: Callable[[str], None]
) -> None:
    text = SERVICE.format(python=sys.executable, probe=probe.__file__, book=storm.book.path, replicas=REPLICAS)
    (here.root / "chat.yaml").write_text(text)
    url = here.weft("deploy", str(here.root / "chat.yaml"), "--wait").strip()
    end = time.monotonic() + seconds
    with Requests(f"{url}/x") as requests:
        _blow(storm, feeder, chance, iter(lambda: time.monotonic() < end, False))
    sent = len(requests.answers) + len(requests.failures)
    note(f"{len(requests.answers)} of {sent} requests were answered; failures: {Counter(requests.failures)}")
    assert len(requests.answers) >= MIN_ANSWERED * sent
    _settle(here, storm, feeder, note)  # a server that is stopped may lock its journal
    replicas = {f"replica {fact.job.id}" for fact in here.facts() if isinstance(fact, Submitted) and fact.job.replica}
    assert set(requests.answers) <= replicas
    until(lambda: [each["status"] for each in _replicas(here)] == ["ready"] * REPLICAS, PATIENCE_S)
    assert len(storm.book.living_leaders()) == REPLICAS, "a replica runs twice, or an old one is left"
    here.weft("undeploy", "chat", "--now")


def _replicas(here: Cluster) -> list[dict[str, Any]]:
    (found,) = here.json("services")["services"]
    return list(found["replicas"])


def _blow(storm: Storm, feeder: Feeder, chance: Random, rounds: Iterable[object]) -> None:
    feeder.invent(chance, 8)
    until(storm.book.begins)
    for _ in rounds:
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
