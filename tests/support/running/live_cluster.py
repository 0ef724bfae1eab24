"""A cluster of a test's own: `weft server` and `weft worker` as real processes on loopback, used as a user would, in
folders that go with the test."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from support.plain_env import plain_env
from support.running.local_scheduler import PATIENCE_S, until
from support.running.secured_cluster import free_port
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.endpoints.credentials import open_channel as channel_to
from weft.access.server.settings import changed, save, saved_settings
from weft.access.wire.service import SERVICES
from weft.access.wire.service import call as method
from weft.history.journal.sqlite import SqliteJournal
from weft.model import Fact

OVER = ("done", "failed", "cancelled")
PLAIN = ("--policy", "fifo", "--min-run", "0")
SOURCE = str(Path(__file__).parents[3] / "src")


@dataclass
class Cluster:
    root: Path
    port: int
    env: dict[str, str] = field(repr=False)
    metrics_port: int
    prefix: tuple[str, ...] = ()
    """The words that commands begin with, such as a command that enters a network namespace."""
    options: tuple[str, ...] = ()
    """Flags of the server, whenever it is started."""
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    # ---- its processes

    def serve(self) -> None:
        process = self.start_server()
        until(lambda: process.poll() is not None or self.call("nodes").returncode == 0)
        assert process.poll() is None, self.out("server")

    def start_server(self) -> subprocess.Popen[str]:
        ports = ("--port", str(self.port), "--metrics-port", str(self.metrics_port))
        return self.start("server", "server", *ports, *self.options)

    def work(self, *names: str, gpus: int = 2) -> None:
        """Start workers, each with this many GPUs."""
        for name in names:
            self.start(name, "worker", "--id", name, "--gpus", ",".join(map(str, range(gpus))))
        until(lambda: set(names) <= self.connected())

    def join(self, name: str, gpus: str, model: str, *options: str) -> None:
        """A worker with GPUs of this model that are numbered so."""
        count = len(gpus.split(","))
        models, memories = ",".join([model] * count), ",".join(["8000"] * count)
        self.start(name, "worker", "--id", name, "--gpus", gpus, "--models", models, "--memories", memories, *options)
        until(lambda: name in self.connected())

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        """A `weft` that stays."""
        with (self.root / f"{name}.out").open("a") as out:
            self.processes[name] = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True,
            )  # fmt: skip
        return self.processes[name]

    def kill9(self, name: str) -> None:
        self.end(name, signal.SIGKILL)

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def out(self, name: str) -> str:
        """All that it wrote."""
        return (self.root / f"{name}.out").read_text()

    def memory_mb(self) -> float:
        """Return the resident memory of the server."""
        lines = Path(f"/proc/{self.processes['server'].pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def close(self) -> None:
        """End the jobs, then the workers and the server."""
        if not self.processes:
            return
        with contextlib.suppress(Exception):
            if "server" not in self.processes:
                self.serve()
            self.call("cancel", "--all", "-y")
            until(lambda: not [job for job in self.json("queue")["jobs"] if job["status"] not in OVER], 20.0)
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    # ---- as a user

    def call(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root,
            input=stdin, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False,
        )  # fmt: skip

    def weft(self, *words: str, code: int | None = 0) -> str:
        done = self.call(*words)
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, verb: str, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft(verb, "--json", *words))
        return found

    def submit(self, *command: str, flags: Sequence[str] = ()) -> str:
        (job,) = self.json("submit", *flags, "--", *command)["ids"]
        return str(job)

    def job(self, job: str) -> dict[str, Any]:
        (found,) = self.json("show", job)["jobs"]
        return dict(found)

    def until_status(self, job: str, *statuses: str) -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: (row := self.job(job))["status"] in statuses and row)
        return found

    def wait(self, job: str) -> int:
        """The job's own exit code."""
        return self.call("wait", job).returncode

    def logs(self, job: str, *words: str) -> str:
        return self.weft("logs", job, *words)

    def node(self, name: str) -> dict[str, Any]:
        return next((node for node in self.json("nodes")["nodes"] if node["node"] == name), {})

    def connected(self) -> set[str]:
        return {node["node"] for node in self.json("nodes")["nodes"] if node["state"] == "connected"}

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=PATIENCE_S) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, line: str) -> float:
        return float(
            next(
                each.rpartition(" ")[2]
                for each in self.page("/metrics")[1].splitlines()
                if line in each and each[0] != "#"
            )
        )

    # ---- as a program

    @property
    def address(self) -> Address:
        return Address("localhost", self.port)

    def credentials(self) -> Credentials:
        """Return the credentials of the server's user."""
        return Credentials((self.folder / "token").read_text().strip())

    @contextlib.contextmanager
    def channel(self) -> Iterator[Callable[[str], Callable[..., Any]]]:
        """Gives the methods of the wire by their names."""
        shown = self.credentials()
        service_of = {name: service for service, methods in SERVICES.items() for name in methods}
        with channel_to(self.address, shown) as made:
            yield lambda name: partial(method(made, name, service_of[name]), metadata=shown.metadata())

    # ---- what it keeps

    @property
    def folder(self) -> Path:
        """The server's."""
        return Path(self.env["XDG_STATE_HOME"], "weft", "servers", str(self.port))

    @property
    def workers(self) -> Path:
        return Path(self.env["XDG_STATE_HOME"], "weft", "workers")

    def facts(self) -> list[Fact]:
        with SqliteJournal(self.folder / "state.db", readonly=True) as journal:
            return list(journal.read())

    def run_folder(self, node: str, job: str, run: int = 1) -> Path:
        return self.workers / node / "jobs" / job / str(run)

    def says(self, node: str, job: str, text: str, run: int = 1) -> None:
        """Until a run has written this, on its node."""
        log = self.run_folder(node, job, run) / "output.log"
        until(lambda: log.exists() and text in log.read_text(errors="replace"))

    def where(self, job: str, run: int = 1) -> list[str]:
        """On which nodes a run has a folder."""
        return sorted(each.name for each in self.workers.iterdir() if (each / "jobs" / job / str(run)).exists())


@contextlib.contextmanager
def cluster(
    *names: str,
    gpus: int = 2,
    options: Sequence[str] = PLAIN,
    settings: Mapping[str, object] | None = None,
    prefix: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """With workers of these names. `settings` are of those that have no option; `env` is added to the environment."""
    root = Path(tempfile.mkdtemp(prefix="weft-c-"))  # short: sockets are in it
    keep = plain_env()
    port = free_port()
    variables = {
        **keep, **(env or {}), "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r",
        "XDG_CONFIG_HOME": f"{root}/c", "WEFT_SCHEDULER": f"localhost:{port}", "PYTHONPATH": SOURCE,
    }  # fmt: skip
    made = Cluster(root, port, variables, free_port(), prefix, tuple(options))
    if settings is not None:
        made.folder.mkdir(parents=True)
        save(made.folder, changed(saved_settings(made.folder), **settings))
    try:
        made.serve()
        if names:
            made.work(*names, gpus=gpus)
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)
