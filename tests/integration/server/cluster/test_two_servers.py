"""Two servers on one database: whatever happens to the leader, nothing is lost and nothing is done twice."""

from __future__ import annotations

import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from support.cli_call import fails
from support.peers.postgres import Postgres
from support.running.local_scheduler import until
from support.running.server_pair import PATIENCE_S, Pair, next_submit_s, pair
from weft.access.client import Client
from weft.access.client.remote import RemoteTransport
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import find_credentials
from weft.access.wire import messages as m
from weft.errors import NotLeading

LEASE_S = 2.0


def kill(made: Pair, leader: str, _: Postgres) -> None:
    made.kill(leader)


def stop(made: Pair, leader: str, _: Postgres) -> None:
    made.signal(leader, signal.SIGSTOP)


def step_down(made: Pair, leader: str, _: Postgres) -> None:
    made.stop(leader)


def restart_database(_made: Pair, _leader: str, database: Postgres) -> None:
    database.crash_and_restart()


def kill_during_restart(made: Pair, leader: str, database: Postgres) -> None:
    made.kill(leader)
    database.crash_and_restart()


def cut_connections(made: Pair, leader: str, _: Postgres) -> None:
    """End the leader's connections to the database, and refuse new ones until its lease is over."""
    made.lines[leader].cut(refuse=True)
    until_other_leads(made, leader)
    made.lines[leader].mend()


def hold_connections(made: Pair, leader: str, _: Postgres) -> None:
    """Hold back what the leader sends to the database. It arrives when another server leads, and changes nothing."""
    made.lines[leader].hold("up")
    until_other_leads(made, leader)
    made.lines[leader].mend()


def until_other_leads(made: Pair, leader: str) -> None:
    until(lambda: made.leader() not in (leader, ""), PATIENCE_S)


FAULTS: dict[str, Callable[[Pair, str, Postgres], None]] = {
    "kill -9": kill, "SIGSTOP": stop, "step-down": step_down, "database restart": restart_database,
    "cut connections": cut_connections, "held connections": hold_connections,
    "kill -9 and database restart": kill_during_restart,
}  # fmt: skip


def fault(made: Pair, name: str, database: Postgres, client: Client) -> float:
    """Do something to the leader. Return the seconds until a submit is acknowledged, with both servers up again."""
    leader = made.leader()
    began = time.monotonic()
    FAULTS[name](made, leader, database)
    if leader not in made.processes:  # as a supervisor would: it is a standby when the other server leads
        made.serve(leader)
    took = next_submit_s(made, client, began)
    if name == "SIGSTOP":
        made.signal(leader, signal.SIGCONT)
    made.await_standby()
    return took


def finish(made: Pair, client: Client) -> None:
    for job in made.submitted:
        assert client.wait(job).status == "done"
    made.check()


def refused_by_standby(made: Pair) -> None:
    """Check that the standby names the leader to a caller, and that a command finds the leader."""
    standby = Address("127.0.0.1", made.ports["b"])
    transport = RemoteTransport(standby, find_credentials(standby))
    with pytest.raises(NotLeading, match=f"the leader is 127.0.0.1:{made.ports['a']}"):
        transport.call("Query", m.QueryRequest(what="queue"), 10.0)
    done = made.weft("queue", "--scheduler", str(made.where))
    assert done.returncode == 0, done.stderr


TAKE_OVERS = (
    "kill -9", "SIGSTOP", "kill -9", "cut connections", "kill -9", "step-down", "kill -9",
    "kill -9 and database restart", "kill -9", "held connections", "SIGSTOP", "kill -9",
)  # fmt: skip


def test_twelve_take_overs_lose_nothing_and_do_nothing_twice(database: Postgres) -> None:
    with pair(database, lease_s=1.0) as made, made.client() as client:
        made.await_standby()
        made.work("w1", "w2")
        refused_by_standby(made)
        epoch = made.epoch()
        with submitting(made):
            fault(made, "database restart", database, client)
            for name in TAKE_OVERS:
                fault(made, name, database, client)
        assert made.epoch() - epoch >= len(TAKE_OVERS)
        finish(made, client)


@pytest.mark.soak
def test_fifty_take_overs(database: Postgres) -> None:
    """Faults of all kinds while jobs are submitted all the time. docs/reference/performance.md has the figures."""
    rng = random.Random(7)
    names = [*["kill -9"] * 20, *["SIGSTOP"] * 12, *["step-down"] * 6, *["database restart"] * 6]
    names += [*["cut connections"] * 3, *["held connections"] * 3]
    rng.shuffle(names)
    took: dict[str, list[float]] = {name: [] for name in names}
    with pair(database, lease_s=LEASE_S) as made, made.client() as client:
        made.await_standby()
        made.work("w1", "w2")
        with submitting(made):
            for name in names:
                took[name].append(fault(made, name, database, client))
        finish(made, client)
        assert made.epoch() >= 38
    for name, times in took.items():
        print(f"{name}: median {statistics.median(times):.2f} s, longest {max(times):.2f} s of {len(times)}")
    assert statistics.median(took["kill -9"]) <= LEASE_S + 1.0
    assert statistics.median(took["SIGSTOP"]) <= LEASE_S + 4.0


@contextmanager
def submitting(made: Pair) -> Iterator[None]:
    """Submit jobs in the background, as another user of the servers would."""
    over = threading.Event()

    def submit() -> None:
        with made.client() as client:
            while not over.wait(0.7):
                next_submit_s(made, client, time.monotonic())

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)


@pytest.mark.usefixtures("here")
def test_flags_for_several_servers_need_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--peers needs a database that all servers share" in fails(capsys, "server", "--peers", "a:1,b:2")
    there = ("--db", "postgresql://nowhere/x", "--port", "7")
    assert "--peers names this server" in fails(capsys, "server", *there, "--peers", "a.invalid:1,b.invalid:2")
    assert "out of range" in fails(capsys, "server", *there, "--leader-lease", "0.1")
