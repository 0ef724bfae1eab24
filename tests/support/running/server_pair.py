"""Two `weft server` on one PostgreSQL, with workers and jobs: real processes on loopback, which a test kills, stops and
cuts off."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storm.proxy import Proxy
from support.peers.postgres import Postgres
from support.plain_env import plain_env
from support.running.local_scheduler import until
from support.running.secured_cluster import free_port
from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.wire import messages as m
from weft.errors import WeftError
from weft.history.journal import open_journal
from weft.model import Exited, Fact, Start, Submitted

PATIENCE_S = 90.0


@dataclass
class Pair:
    """The servers `a` and `b`, each with a folder for itself, and what their users started."""

    root: Path
    database: Postgres
    url: str
    lease_s: float
    ports: dict[str, int] = field(default_factory=lambda: {"a": free_port(), "b": free_port()})
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lines: dict[str, Proxy] = field(default_factory=dict)
    """The way of each server to the database."""
    submitted: list[str] = field(default_factory=list)
    options: tuple[str, ...] = ()
    more_env: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> Address:
        a, b = (Address("127.0.0.1", port) for port in self.ports.values())
        return a._replace(others=(b,))

    @property
    def env(self) -> dict[str, str]:
        keep = plain_env()
        return {
            **keep,
            "HOME": str(self.root),
            "XDG_RUNTIME_DIR": f"{self.root}/r",
            "XDG_STATE_HOME": f"{self.root}/s",
            "WEFT_RUN_AS": "worker",
            **self.more_env,
        }

    # ---- processes

    def url_for(self, name: str) -> str:
        """Return the URL by which a server finds the database: through a line that a test may cut."""
        line = self.lines.get(name)
        if line is None:
            line = self.lines[name] = Proxy(self.database.port)
        return self.url.replace(f":{self.database.port}/", f":{line.port}/")

    def serve(self, name: str) -> None:
        peers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self._start(
            name, "server", "--port", str(self.ports[name]), "--db", self.url_for(name), "--peers", peers,
            "--leader-lease", str(self.lease_s), "--policy", "fifo", "--min-run", "0", "--lease", "60", *self.options,
        )  # fmt: skip

    def work(self, *names: str) -> None:
        for name in names:
            self._start(name, "worker", "--scheduler", str(self.where), "--id", name, "--gpus", "0,1")

    def _start(self, name: str, *words: str) -> None:
        with (self.root / f"{name}.out").open("a") as out:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out,
            )  # fmt: skip

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait(30)

    def stop(self, name: str) -> None:
        self.signal(name, signal.SIGTERM)
        self.processes.pop(name).wait(PATIENCE_S)

    def leader(self) -> str:
        """Return the server that leads, by the database; empty: none."""
        ((address,),) = self.database.execute("SELECT address FROM weft_leader", self.url)
        port = int(str(address).rpartition(":")[2] or 0)
        return next((name for name, each in self.ports.items() if each == port), "")

    def epoch(self) -> int:
        ((epoch,),) = self.database.execute("SELECT epoch FROM weft_leader", self.url)
        return int(str(epoch))

    def await_standby(self) -> None:
        """Wait until one server leads and the other follows, as its log says last."""
        until(lambda: self._last_role("a") != self._last_role("b"), PATIENCE_S)
        until(lambda: "standby" in map(self._last_role, self.ports), PATIENCE_S)

    def _last_role(self, name: str) -> str:
        lines = [line for line in self.log(name).splitlines() if "standby: the" in line or "serving at" in line]
        alive = self.processes.get(name) is not None
        return "" if not lines or not alive else "standby" if "standby: the" in lines[-1] else "leader"

    def folder(self, name: str) -> Path:
        return self.root / "s" / "weft" / "servers" / str(self.ports[name])

    def log(self, name: str) -> str:
        path = self.folder(name) / "server.log"
        return path.read_text() if path.exists() else ""

    # ---- as a user

    def client(self) -> Client:
        return Client(self.where)

    def weft(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weft", *words]
        return subprocess.run(
            command, env=self.env | env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def run(self, *words: str) -> str:
        """Run a command that must work, and return its output."""
        done = self.weft(*_with_scheduler(words, self.where))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "--json"))
        return found

    def submit(self, client: Client, seconds: float = 0.2) -> str:
        """Submit a job that records each of its starts, and return its id once a server has acknowledged it."""
        script = f'echo "$WEFT_JOB_ID $WEFT_RUN" >> {self.root}/starts; sleep {seconds}'
        spec = m.JobSpec(command=["sh", "-c", script], gpus=1, chdir=str(self.root))
        (job,) = client.submit(m.SubmitRequest(jobs=[spec]))
        self.submitted.append(job)
        return job

    def facts(self) -> list[Fact]:
        with open_journal(self.url, readonly=True) as journal:
            return list(journal.read())

    def starts(self) -> list[str]:
        path = self.root / "starts"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def check(self) -> None:
        """All acknowledged jobs are there once, ended well and ran once; the journal is sound."""
        facts = self.facts()
        submitted = [fact.job.id for fact in facts if isinstance(fact, Submitted)]
        assert len(submitted) == len(set(submitted)), "a job is there twice"
        keys = [fact.job.task.key for fact in facts if isinstance(fact, Submitted) and fact.job.task]
        assert len(keys) == len(set(keys)), "a request was carried out twice"
        assert set(self.submitted) <= set(submitted), "an acknowledged job is lost"
        done = {fact.job for fact in facts if isinstance(fact, Exited) and fact.how == "done"}
        assert set(self.submitted) <= done
        assert sorted(self.starts()) == sorted(set(self.starts())), "a run was started twice"
        runs = {fact.job for fact in facts if isinstance(fact, Start)}
        assert len(self.starts()) == len(runs), "a job ran twice"
        rows = self.database.execute("SELECT position, epoch FROM weft_facts ORDER BY position", self.url)
        assert [position for position, _ in rows] == list(range(1, len(rows) + 1))
        epochs = [int(str(epoch)) for _, epoch in rows]
        assert epochs == sorted(epochs)

    def close(self) -> None:
        for line in self.lines.values():
            line.mend()
        with contextlib.suppress(Exception), self.client() as client:
            client.change("cancel", statuses=["queued", "running"])
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for line in self.lines.values():
            line.close()


def _with_scheduler(words: tuple[str, ...], where: Address) -> list[str]:
    """Return the words of a command with the servers, before the words that are not for it."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--scheduler", str(where), *words[at:]]


@contextlib.contextmanager
def pair(
    database: Postgres, *, lease_s: float = 2.0, options: tuple[str, ...] = (), env: dict[str, str] | None = None
) -> Iterator[Pair]:
    """Start two servers. The first one leads."""
    root = Path(tempfile.mkdtemp(prefix="weft-pair-"))
    made = Pair(root, database, database.schema_url(), lease_s, options=options, more_env=env or {})
    old = {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")}
    os.environ.update({key: made.env[key] for key in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")})
    os.environ.pop("XDG_CONFIG_HOME", None)
    try:
        open_journal(made.url).close()
        made.serve("a")
        until(lambda: made.leader() == "a", PATIENCE_S)
        made.serve("b")
        yield made
    finally:
        made.close()
        for key, value in old.items():
            os.environ.pop(key, None) if value is None else os.environ.__setitem__(key, value)
        shutil.rmtree(root, ignore_errors=True)


def next_submit_s(pair: Pair, client: Client, since: float) -> float:
    """Return the seconds until a submit is acknowledged."""
    while True:
        try:
            pair.submit(client)
        except WeftError:
            if time.monotonic() - since > PATIENCE_S:
                raise
            time.sleep(0.05)
        else:
            return time.monotonic() - since
