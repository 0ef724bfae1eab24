"""The journal in PostgreSQL: durable rates, and what the fence of the leader costs. It starts a database for itself."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.peers.postgres import Postgres, postgres
from weft.history.journal.postgres.journal import INSERT, PostgresJournal
from weft.history.journal.postgres.lease import LeaderLease
from weft.history.journal.postgres.session import Session
from weft.history.journal.sqlite import SqliteJournal
from weft.model import Exited, Fact

BATCH, BATCHES, COMMITS = 100, 60, 400
MIN_RATE = 1000.0
MAX_FENCE_MS = 0.3
UNFENCED = f"WITH led AS (SELECT 1) {INSERT}"


def figures() -> Iterator[Figure]:
    with postgres(fsync="on") as database:
        yield from _rates(database)
        yield from _fence(database)


def _led(database: Postgres) -> PostgresJournal:
    url = database.schema_url()
    journal, lease = PostgresJournal(url), LeaderLease(url, "bench", "", 3600.0)
    epoch = lease.take()
    assert epoch is not None
    journal.lead(epoch, "bench", lambda: False)
    lease.close()
    return journal


def _facts(count: int) -> list[Fact]:
    return [Exited(float(at), str(at), 1, "done", 0.0, 0) for at in range(count)]


def _rates(database: Postgres) -> Iterator[Figure]:
    import tempfile

    facts = _facts(BATCH)
    with (
        _led(database) as journal,
        tempfile.TemporaryDirectory(prefix="weft-b-") as root,
        SqliteJournal(Path(root, "state.db")) as beside,
    ):
        took = {"PostgreSQL": 0.0, "SQLite beside it": 0.0}
        for _ in range(BATCHES):
            for name, each in (("PostgreSQL", journal.append), ("SQLite beside it", beside.append)):
                began = time.perf_counter()
                each(*facts)
                took[name] += time.perf_counter() - began
    rate = {name: BATCH * BATCHES / seconds for name, seconds in took.items()}
    yield Figure(f"durable, batches of {BATCH}: PostgreSQL", rate["PostgreSQL"], "facts/s", MIN_RATE, True)
    yield Figure(f"durable, batches of {BATCH}: SQLite beside it", rate["SQLite beside it"], "facts/s")


def _fence(database: Postgres) -> Iterator[Figure]:
    """Alternate commits with and without the fence, both without waiting for the disk, which would hide it."""
    with _led(database) as fenced:
        session = Session(database.schema_url())
        PostgresJournal(session.url).close()
        session.run("write to", "SET synchronous_commit = off")
        fenced._writer.run("write to", "SET synchronous_commit = off")
        fact, took = _facts(1)[0], ([], [])  # type: tuple[Fact, tuple[list[float], list[float]]]
        for at in range(COMMITS):
            given = {"after": at, "epoch": 1, "bodies": ["{}"], "holder": ""}
            began = time.perf_counter()
            session.run("append to", UNFENCED, given)
            middle = time.perf_counter()
            fenced.append(fact)
            took[0].append(middle - began)
            took[1].append(time.perf_counter() - middle)
        session.close()
    without, with_fence = (1000 * statistics.median(each) for each in took)
    yield Figure("commit of one fact without the fence, median", without, "ms")
    yield Figure("the fence and the renewal in it add, median", with_fence - without, "ms", MAX_FENCE_MS)
