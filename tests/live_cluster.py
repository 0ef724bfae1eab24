"""A cluster of a test's own: `weft server` and `weft worker` as real processes on loopback, used as a user would."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live import PATIENCE_S, until

OVER = ("done", "failed", "cancelled")


@dataclass
class Cluster:
    root: Path
    env: dict[str, str]
    port: int
    prefix: tuple[str, ...] = ()
    """What commands begin with, such as one that enters a network namespace."""
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    # ---- its processes

    def serve(self, *options: str) -> None:
        """With the options it was first given, unless others are."""
        self.options = options or self.options
        self._spawn("server", "server", "--port", str(self.port), *self.options)
        until(lambda: self._asked("nodes").returncode == 0)

    def work(self, *names: str, gpus: int = 2) -> None:
        for name in names:
            indices = ",".join(map(str, range(gpus)))
            self._spawn(name, "worker", "--id", name, "--gpus", indices)
        until(lambda: set(names) <= self.connected())

    def connected(self) -> set[str]:
        return {node["node"] for node in self.json("nodes")["nodes"] if node.get("state", "connected") == "connected"}

    def kill9(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes.pop(name).wait()

    def end(self, name: str) -> int:
        """As Ctrl-C does."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    def _spawn(self, key: str, *words: str) -> None:
        log = open(self.root / f"{key}.out", "a")  # noqa: SIM115  it stays open as long as the process
        self.processes[key] = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
        )  # fmt: skip
        log.close()

    def close(self) -> None:
        """Ends the jobs, then whoever runs them."""
        with contextlib.suppress(Exception):
            if "server" not in self.processes:
                self.serve()
            self._asked("cancel", "--all", "-y")
            until(lambda: not [job for job in self.json("queue")["jobs"] if job["status"] not in OVER], 20.0)
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ---- as a user

    def weft(self, *words: str, code: int | None = 0) -> str:
        done = self._asked(*words)
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False,
        )  # fmt: skip

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft(words[0], *words[1:], "--json"))
        return found

    def submit(self, *command: str, flags: Sequence[str] = ()) -> str:
        (job,) = self.json_of("submit", *flags, "--json", "--", *command)["ids"]
        return str(job)

    def json_of(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft(*words))
        return found

    def job(self, job: str) -> dict[str, Any]:
        (found,) = self.json("show", job)["jobs"]
        return dict(found)

    def wait(self, job: str) -> int:
        """The job's own exit code."""
        return self._asked("wait", job).returncode

    def logs(self, job: str, *words: str) -> str:
        return self.weft("logs", job, *words)

    def run_folder(self, node: str, job: str, run: int = 1) -> Path:
        return Path(self.env["XDG_STATE_HOME"]) / "weft" / "workers" / node / "jobs" / job / str(run)

    def says(self, node: str, job: str, text: str, run: int = 1) -> None:
        """Until a run has written this, on its node."""
        log = self.run_folder(node, job, run) / "output.log"
        until(lambda: log.exists() and text in log.read_text(errors="replace"))

    def where(self, job: str, run: int = 1) -> list[str]:
        """On which nodes a run has a folder."""
        workers = Path(self.env["XDG_STATE_HOME"]) / "weft" / "workers"
        return sorted(each.name for each in workers.iterdir() if (each / "jobs" / job / str(run)).exists())


@contextlib.contextmanager
def cluster(*names: str, gpus: int = 2, options: Sequence[str] = (), prefix: tuple[str, ...] = ()) -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="weft-c-"))
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
    port = free_port()
    source = str(Path(__file__).parents[1] / "src")
    env = {
        **keep, "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "XDG_CONFIG_HOME": f"{root}/c",
        "HOME": str(root), "WEFT_SCHEDULER": f"127.0.0.1:{port}", "PYTHONPATH": source,
    }  # fmt: skip
    made = Cluster(root, env, port, prefix)
    try:
        made.serve(*(options or ("--policy", "fifo", "--min-run", "0")))
        made.work(*names, gpus=gpus)
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
