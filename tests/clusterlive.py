"""A cluster of one's own for a test: a real `weft server` on a free loopback port, real workers, in folders that go
with the test."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate import free_port
from live import PATIENCE_S, until
from weft.journal.sqlite import SqliteJournal
from weft.model import Fact
from weft.wire.addresses import Address
from weft.wire.credentials import answers


@dataclass
class LiveCluster:
    root: Path
    port: int
    metrics_port: int
    env: dict[str, str]
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    # ---- processes

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        with (self.root / f"{name}.out").open("a") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root, text=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.processes[name] = process
        return process

    def serve(self, *words: str) -> None:
        ports = ("--port", str(self.port), "--metrics-port", str(self.metrics_port))
        process = self.start("server", "server", *ports, *words)
        until(lambda: process.poll() is not None or answers(Address("localhost", self.port)))
        assert process.poll() is None, self.out("server")

    def join(self, name: str, gpus: str = "0,1", model: str = "A", *words: str) -> None:
        count = len(gpus.split(","))
        models, memories = ",".join([model] * count), ",".join(["8000"] * count)
        self.start(name, "worker", "--id", name, "--gpus", gpus, "--models", models, "--memories", memories, *words)
        until(lambda: self.node(name).get("state") == "connected")

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def out(self, name: str) -> str:
        return (self.root / f"{name}.out").read_text()

    # ---- commands

    def weft(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.weft(words[0], "--json", *words[1:]).stdout)

    def submit(self, *words: str) -> str:
        return str(self.json("submit", *words)["ids"][0])

    def job(self, job: str) -> dict[str, Any]:
        (found,) = self.json("show", job)["jobs"]
        return dict(found)

    def until_status(self, job: str, *statuses: str) -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: (row := self.job(job))["status"] in statuses and row)
        return found

    def node(self, name: str) -> dict[str, Any]:
        return next((node for node in self.json("nodes")["nodes"] if node["node"] == name), {})

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=PATIENCE_S) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, line: str) -> float:
        return float(next(each.rpartition(" ")[2] for each in self.page("/metrics")[1].splitlines() if line in each))

    # ---- what it keeps

    @property
    def folder(self) -> Path:
        return Path(self.env["XDG_STATE_HOME"], "weft", "servers", str(self.port))

    def facts(self) -> list[Fact]:
        with SqliteJournal(self.folder / "state.db", readonly=True) as journal:
            return list(journal.read())

    def close(self) -> None:
        if "server" in self.processes:
            with contextlib.suppress(Exception):
                self.weft("operate", "shutdown", "--jobs", "stop", check=False)
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def live_cluster(*words: str) -> Iterator[LiveCluster]:
    root = Path(tempfile.mkdtemp(prefix="weft-c-"))
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
    port = free_port()
    env = {**keep, "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r",
           "XDG_CONFIG_HOME": f"{root}/c", "WEFT_SCHEDULER": f"localhost:{port}"}  # fmt: skip
    made = LiveCluster(root, port, free_port(), env)
    try:
        made.serve(*words)
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)
