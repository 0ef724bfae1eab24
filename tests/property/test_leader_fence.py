"""The lease and its fence: servers that take, append, renew and pause at random never undo one another.

The SQL runs on a real PostgreSQL with a clock that only the test moves; `weft.history.journal.leadership` says what
each statement must do.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.peers.postgres import Postgres
from weft.errors import Deposed
from weft.history.journal import open_journal
from weft.history.journal.leadership import DRIFT, LeaderRecord, Tenure
from weft.history.journal.postgres.journal import PostgresJournal
from weft.history.journal.postgres.lease import LeaderLease
from weft.model import Wake

SERVERS = ("a", "b", "c")
LEASE_S = 4.0
CLOCK = "(SELECT now FROM clock)"
Step = tuple[str, str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("take", "append", "append", "renew", "release", "wait")), st.sampled_from(SERVERS),
        st.integers(1, 5),
    ),
    max_size=30,
)  # fmt: skip


@dataclass
class Server:
    name: str
    journal: PostgresJournal
    lease: LeaderLease
    epoch: int = 0
    tenure: Tenure = field(default_factory=lambda: Tenure(LEASE_S, float("-inf")))


class Trial:
    """Some servers on one database, and what the rules say about them."""

    def __init__(self, database: Postgres) -> None:
        self._database, self._url = database, database.schema_url()
        open_journal(self._url).close()
        database.execute("CREATE TABLE clock AS SELECT 'epoch'::timestamptz AS now", self._url)
        self.servers = {
            name: Server(
                name, PostgresJournal(self._url), LeaderLease(self._url, name, f"{name}:1", LEASE_S, now=CLOCK)
            )
            for name in SERVERS
        }
        self._reset()

    def _reset(self) -> None:
        self.now, self.record = 0.0, LeaderRecord()
        self.accepted: list[tuple[int, Wake]] = []
        self._count = 0
        self._database.execute("TRUNCATE weft_facts; UPDATE clock SET now = 'epoch'", self._url)
        fresh = "epoch = 0, holder = '', address = '', lease_s = 0, renewed_at = 'epoch'"
        self._database.execute(f"UPDATE weft_leader SET {fresh}", self._url)
        for each in self.servers.values():
            each.epoch, each.tenure = 0, Tenure(LEASE_S, float("-inf"))

    def run(self, steps: list[Step]) -> None:
        self._reset()
        for verb, name, amount in steps:
            getattr(self, verb)(self.servers[name], amount)
            assert sum(self.now < each.tenure.answers_until for each in self.servers.values()) <= 1, "two would answer"
        self.check()

    def wait(self, _: Server, amount: int) -> None:
        self.now += amount
        self._database.execute(f"UPDATE clock SET now = 'epoch'::timestamptz + interval '{self.now} s'", self._url)

    def take(self, server: Server, _: int) -> None:
        expected = self.record.taken(server.name, f"{server.name}:1", LEASE_S, self.now)
        found = server.lease.take()
        assert found == (expected.epoch if expected else None)
        if expected and found is not None:
            self.record, server.epoch = expected, found
            server.tenure = Tenure(LEASE_S, self.now)
            server.journal.lead(found, server.name, lambda: False, CLOCK)

    def append(self, server: Server, amount: int) -> None:
        if not server.epoch:
            return
        facts = [Wake(float(self._count + at)) for at in range(amount)]
        self._count += amount
        expected = self.record.renewed(server.epoch, server.name, self.now)
        if expected is None:
            with pytest.raises(Deposed):
                server.journal.append(*facts)
            return
        server.journal.append(*facts)
        self.record = expected
        server.tenure.renew(self.now)
        self.accepted += [(server.epoch, fact) for fact in facts]

    def renew(self, server: Server, _: int) -> None:
        expected = self.record.renewed(server.epoch, server.name, self.now)
        assert server.lease.renew(server.epoch) == (expected is not None)
        if expected:
            self.record = expected
            server.tenure.renew(self.now)

    def release(self, server: Server, _: int) -> None:
        server.tenure = Tenure(LEASE_S, float("-inf"))  # it stops answering before it gives the lead up
        server.lease.release(server.epoch)
        self.record = self.record.released(server.epoch, server.name)

    def check(self) -> None:
        assert self.servers["a"].lease.read() == self.record
        rows = self._database.execute("SELECT position, epoch, body FROM weft_facts ORDER BY position", self._url)
        assert [position for position, _, _ in rows] == list(range(1, len(rows) + 1))
        with open_journal(self._url, readonly=True) as reader:
            assert list(zip((epoch for _, epoch, _ in rows), reader.read(), strict=True)) == self.accepted
        epochs = [epoch for _, epoch, _ in rows]
        assert epochs == sorted(epochs)  # type: ignore[type-var]

    def close(self) -> None:
        for each in self.servers.values():
            each.journal.close()
            each.lease.close()


@pytest.fixture(scope="module")
def trial(database: Postgres) -> Iterator[Trial]:
    made = Trial(database)
    yield made
    made.close()


@settings(max_examples=40)
@given(STEPS)
def test_stale_appends_never_land_and_acknowledged_ones_stay(trial: Trial, steps: list[Step]) -> None:
    trial.run(steps)


@pytest.mark.soak
@settings(max_examples=3000)
@given(STEPS)
def test_stale_appends_never_land_in_many_interleavings(trial: Trial, steps: list[Step]) -> None:
    trial.run(steps)


def test_servers_that_depose_each_other_all_the_time_leave_a_sound_journal(database: Postgres) -> None:
    """With a lease of 0 s, every attempt to take the lead succeeds, also while another server appends."""
    url, kept = database.schema_url(), [list[int]() for _ in range(3)]
    open_journal(url).close()

    def serve(number: int) -> None:
        lease = LeaderLease(url, f"server-{number}", "", 0.0)
        with PostgresJournal(url) as journal:
            for turn in range(12):
                epoch = lease.take()
                if epoch is None:  # two statements at one instant of the clock
                    continue
                with suppress(Deposed):
                    journal.lead(epoch, lease.holder, lambda: False)
                    for _ in range(8):
                        journal.append(Wake(float(number)), Wake(float(turn)))
                        kept[number].append(epoch)
        lease.close()

    with ThreadPoolExecutor() as threads:
        list(threads.map(serve, range(3)))
    rows = database.execute("SELECT position, epoch FROM weft_facts ORDER BY position", url)
    assert [position for position, _ in rows] == list(range(1, len(rows) + 1))
    assert [epoch for _, epoch in rows] == sorted(2 * [epoch for each in kept for epoch in each])
    assert len({epoch for _, epoch in rows}) > 1


@given(st.floats(0.1, 100.0), st.floats(0.0, 1e6), st.floats(-DRIFT / 2, DRIFT / 2), st.floats(0.0, 10.0))
def test_a_leader_has_stopped_answering_when_another_can_take_over(
    lease_s: float, renewed_at: float, drift: float, delay_s: float
) -> None:
    """Its clock may run slower or faster than the database's, and a renewal takes time to get there."""
    record = LeaderRecord(1, "a", "a:1", lease_s, renewed_at + delay_s)
    tenure = Tenure(lease_s, 0.0)
    last_answer = renewed_at + tenure.answers_until * (1.0 + drift)  # by the clock of the database
    assert not record.may_take(last_answer)
