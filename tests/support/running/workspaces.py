"""Workspaces for tests: a scheduler and a tmux server of their own, and configs that are lines of shell."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import Site, is_alive, site, until

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None and os.environ.get("CI") != "true",
    reason="tmux is not installed: make setup installs it",
)
"""Where everything must be there, they run and fail instead."""
TMUX = shutil.which("tmux") or "tmux"
SCRIPT = """
name=$(basename "$2" .yml)
echo "$name $CUDA_VISIBLE_DEVICES $$" >> ran
exec sh "$2"
"""
"""The program that runs a config: it records itself, then does what the config says. `$1` is --config_path."""


@dataclass
class Folder:
    """A workspace."""

    site: Site
    home: Path
    keys: dict[str, object] = field(default_factory=dict)

    def configure(self, **keys: object) -> None:
        self.keys |= keys
        lines = [f"{key}: {json.dumps(value)}" for key, value in self.keys.items()]
        (self.home / "scheduler_config.yml").write_text("\n".join(lines) + "\n")

    def configs(self, **lines: str) -> None:
        for name, line in lines.items():
            (self.home / "configs" / f"{name}.yml").write_text(line)

    def weft(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.site.weft("workspace", "--dir", str(self.home), *words, check=check)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft("status", "--json").stdout)
        return found

    def task(self, name: str) -> dict[str, Any]:
        (found,) = [task for task in self.status()["tasks"] if task["name"] == name]
        return dict(found)

    def states(self) -> dict[str, str]:
        return {task["name"]: task["state"] for task in self.status()["tasks"]}

    def until_over(self) -> dict[str, str]:
        """The states, once nothing runs or waits. The scheduler is asked, so that no session is brought back."""
        group = f"workspace:{self.home / 'scheduler_config.yml'}"
        with self.site.client() as client:
            ids = [job.id for job in client.jobs(group=group).jobs]
            client.wait_for(ids)
        return self.states()

    def ran(self) -> list[list[str]]:
        """Return the tasks that have started so far: name, GPU and pid of each."""
        with contextlib.suppress(FileNotFoundError):
            return [line.split(" ") for line in (self.home / "ran").read_text().splitlines()]
        return []

    def until_ran(self, count: int) -> list[list[str]]:
        until(lambda: len(self.ran()) >= count)
        return self.ran()

    def marker(self, name: str) -> Path:
        return self.home / "out" / f"{name}_completed.txt"

    def log(self, name: str) -> str:
        return (self.home / "logs" / "train_logs" / f"{name}.log").read_text()


@dataclass
class Desk:
    """Where workspaces are made."""

    site: Site

    @property
    def root(self) -> Path:
        return self.site.root

    def folder(self, name: str, **keys: object) -> Folder:
        home = self.root / name
        (home / "configs").mkdir(parents=True)
        (home / "out").mkdir()
        (home / "task.sh").write_text(SCRIPT)
        made = Folder(self.site, home)
        usual = {
            "task_name": name, "python_env": "sh", "script_path": "task.sh", "log_dir": "logs", "conda_env": "",
            "startup_delay": 0,
        }  # fmt: skip
        made.configure(**{**usual, **keys})
        return made

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            [TMUX, "-u", *words], env=self.site.env, capture_output=True, text=True, timeout=20, check=False
        ).stdout

    def sessions(self) -> list[str]:
        return sorted(self.tmux("list-sessions", "-F", "#{session_name}").splitlines())

    def kill_tmux(self) -> None:
        pid = int(self.tmux("display-message", "-p", "#{pid}"))
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid))


@contextlib.contextmanager
def desk(settings: dict[str, object] | None = None, **env: str) -> Iterator[Desk]:
    with site(settings or {}, **env) as made:
        made.env.pop("TMUX", None)
        made.env["TMUX_TMPDIR"] = str(made.root)
        found = Desk(made)
        try:
            yield found
        finally:
            found.tmux("kill-server")
