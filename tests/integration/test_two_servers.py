"""Two servers on one database: whatever happens to the leader, nothing is lost and nothing is done twice."""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from support.cli_call import fails
from support.postgres import Postgres
from support.server_pair import PATIENCE_S, Pair, next_submit_s, pair
from weft.client import Client
from weft.client.remote import RemoteTransport
from weft.endpoints.addresses import Address
from weft.endpoints.credentials import find_credentials
from weft.errors import NotLeading
from weft.wire import messages as m

LEASE_S = 2.0


def kill(made: Pair, leader: str, _: Postgres) -> None:
    made.kill(leader)


def stop(made: Pair, leader: str, _: Postgres) -> None:
    made.signal(leader, signal.SIGSTOP)


def step_down(made: Pair, leader: str, _: Postgres) -> None:
    made.signal(leader, signal.SIGTERM)
    made.processes.pop(leader).wait(PATIENCE_S)


def restart_database(_made: Pair, _leader: str, database: Postgres) -> None:
    database.crash_and_restart()


def cut_connections(made: Pair, leader: str, database: Postgres) -> None:
    """End the leader's connections again and again until its lease is over."""
    pid = made.processes[leader].pid
    until_s = time.monotonic() + LEASE_S * 1.5
    while time.monotonic() < until_s:
        ports = ",".join(str(port) for port in _local_ports(pid)) or "0"
        database.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port IN ({ports})")
        time.sleep(0.05)


def _local_ports(pid: int) -> set[int]:
    """Return the local ports of all connections of this network namespace that belong to a process."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("socket:[").removesuffix("]"))
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in inodes}


FAULTS: dict[str, Callable[[Pair, str, Postgres], None]] = {
    "kill -9": kill, "SIGSTOP": stop, "step-down": step_down, "database restart": restart_database,
    "cut connections": cut_connections,
}  # fmt: skip


def fault(made: Pair, name: str, database: Postgres, client: Client) -> float:
    """Do something to the leader. Return the seconds until a submit is acknowledged, with both servers up again."""
    leader = made.leader()
    began = time.monotonic()
    FAULTS[name](made, leader, database)
    took = next_submit_s(made, client, began)
    if name == "SIGSTOP":
        made.signal(leader, signal.SIGCONT)
    elif leader not in made.processes:
        made.serve(leader)
    made.await_standby()
    return took


def finish(made: Pair, client: Client) -> None:
    for job in made.submitted:
        assert client.wait(job).status == "done"
    made.check()


@pytest.fixture
def two(database: Postgres) -> Iterator[Pair]:
    with pair(database, lease_s=LEASE_S) as made:
        made.await_standby()
        made.work("w1")
        yield made


def test_leaders_are_killed_and_stopped_and_no_job_is_lost_or_run_twice(two: Pair, database: Postgres) -> None:
    with two.client() as client:
        first = two.submit(client)
        standby = Address("127.0.0.1", two.ports["b"])
        transport = RemoteTransport(standby, find_credentials(standby))
        with pytest.raises(NotLeading, match=f"the leader is 127.0.0.1:{two.ports['a']}"):
            transport.call("Query", m.QueryRequest(what="queue"), 10.0)
        assert client.wait(first).status == "done"
        for name in ("kill -9", "SIGSTOP"):
            fault(two, name, database, client)
        assert two.leader() == "a"
        done = two.weft("queue", "--scheduler", str(two.where))
        assert done.returncode == 0, done.stderr
        finish(two, client)


@pytest.mark.soak
def test_fifty_take_overs(database: Postgres) -> None:
    """Faults of all kinds while jobs are submitted all the time. docs/reference/performance.md has the figures."""
    rng = random.Random(7)
    names = [*["kill -9"] * 20, *["SIGSTOP"] * 12, *["step-down"] * 6, *["database restart"] * 6]
    names += ["cut connections"] * 6
    rng.shuffle(names)
    took: dict[str, list[float]] = {name: [] for name in FAULTS}
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
