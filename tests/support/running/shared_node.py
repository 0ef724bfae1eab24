"""A cluster with one worker that runs as root and keeps its users apart: real accounts, tokens and processes."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.running.local_scheduler import until
from support.running.other_users import User, users
from support.running.secured_cluster import Gate, gate


@dataclass
class SharedNode:
    gate: Gate
    folder: Path
    """The worker's folder."""
    users: list[User]
    words: tuple[str, ...] = ()
    envs: dict[str, dict[str, str]] = field(default_factory=dict)

    def start_worker(self) -> None:
        self.gate.hire("--run-as", "submitter", "--folder", str(self.folder), *self.words)

    def kill_worker(self) -> None:
        assert self.gate.worker is not None
        self.gate.worker.kill()
        self.gate.worker.wait()

    def env_of(self, name: str) -> dict[str, str]:
        """Return the environment in which commands act as this user of the cluster."""
        if name not in self.envs:
            env = self.gate.visitor(name)
            token = self.gate.invited("user", name)
            joined = self.gate.weft("auth", "join", str(self.gate.where), "-", env=env, stdin=f"{token}\n")
            assert joined.returncode == 0, joined.stderr
            self.envs[name] = {**env, "WEFT_SCHEDULER": str(self.gate.where)}
        return self.envs[name]

    def weft(self, name: str, *words: str, code: int | None = 0) -> str:
        done = self.gate.weft(*words, env=self.env_of(name))
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def submit(self, user: User, *words: str) -> str:
        """Submit a job and return its id."""
        out = self.weft(user.name, "submit", "--json", "--chdir", str(user.root), *words)
        return str(json.loads(out)["ids"][0])

    def job(self, user: User | str, job: str) -> dict[str, Any]:
        name = user if isinstance(user, str) else user.name
        found: dict[str, Any] = json.loads(self.weft(name, "show", "--json", job))["jobs"][0]
        return found

    def ended(self, user: User | str, job: str) -> dict[str, Any]:
        """Wait until a job has ended, and return it."""
        records = [self.run_dir(job) / name for name in ("exit.json", "claim.json")]  # a refused run has a fence
        until(lambda: records[0].exists() or (records[1].exists() and "fence" in records[1].read_text()))
        found: dict[str, Any] = until(
            lambda: shown if (shown := self.job(user, job))["status"] in ("done", "failed") else None
        )
        return found

    def log(self, job: str) -> str:
        """Return what a job has written so far."""
        path = self.run_dir(job) / "output.log"
        return path.read_text() if path.exists() else ""

    def run_dir(self, job: str, run: int = 1) -> Path:
        return self.folder / "jobs" / job / str(run)

    def pid(self, job: str) -> int:
        """Return the process of a job's command, which may write before its record is there."""
        until((self.run_dir(job) / "started.json").exists)
        record = json.loads((self.run_dir(job) / "started.json").read_bytes().rstrip(b"\0"))
        return int(record["leader"][1] if isinstance(record["leader"], list) else record["leader"]["pid"])


@contextlib.contextmanager
def shared_node(count: int, *words: str, nvml: Path | None = None) -> Iterator[SharedNode]:
    """Yield a node with these users. `nvml` is a file that stands for its driver."""
    with users(count) as (root, people), gate() as made:
        if nvml is not None:
            made.env["WEFT_NVML_FAKE"] = str(nvml)
        folder = root / "worker"
        node = SharedNode(made, folder, people, words)
        try:
            node.start_worker()
            yield node
        finally:
            made.close()
            made.worker = None
            _remove_runtime(folder)


def _remove_runtime(folder: Path) -> None:
    from weft.node.agent.state_dir import agent_dir

    runtime = agent_dir("n1", folder, for_all_users=True).runtime
    shutil.rmtree(runtime, ignore_errors=True)
    with contextlib.suppress(OSError):
        runtime.parent.rmdir()  # unless another worker uses it


def is_denied(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and ("denied" in done.stderr.lower() or "not permitted" in done.stderr.lower())
