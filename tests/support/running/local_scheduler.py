"""A scheduler of one's own for a test: real processes, in folders that go with the test."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.plain_env import plain_env
from weft.access.client import Client
from weft.access.endpoints.paths import Paths, user_paths
from weft.access.jobspec.fields import spec_of
from weft.access.jobspec.readers import Given
from weft.access.wire.messages import SubmitRequest, Variable
from weft.views.answers.operations import SHUTDOWN

PATIENCE_S = 60.0


@dataclass
class Site:
    """Where a scheduler keeps its things. `weft` runs commands there as a user would."""

    root: Path
    env: dict[str, str]
    started: set[int] = field(default_factory=set)

    @property
    def paths(self) -> Paths:
        return user_paths(self.env)

    def settings(self, **settings: object) -> None:
        self.paths.make()
        (self.paths.state / "settings.json").write_text(json.dumps(settings))

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Starts the scheduler if there is none; remembers it, so that it ends with the test."""
        before = os.environ.copy()
        os.environ.update(self.env)
        try:
            client = Client(self.paths)
        finally:
            os.environ.clear()
            os.environ.update(before)
        with client:
            self.started.add(self.pid())
            yield client

    def pid(self) -> int:
        return int(self.paths.lock.read_text())

    def submit(self, client: Client, *command: str, **keys: Given) -> str:
        spec = spec_of({"command": list(command), **keys})
        env = [Variable(name="PATH", value=os.environ["PATH"])]
        (job,) = client.submit(SubmitRequest(jobs=[spec], env=env, chdir=str(self.root)))
        return job

    def kill9(self) -> None:
        """The scheduler dies without a word; its lock goes with it."""
        pid = self.pid()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid) and self._is_unlocked())

    def _is_unlocked(self) -> bool:
        """Its threads may take a moment longer to end, and hold the lock meanwhile."""
        with open(self.paths.lock) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def weft(
        self, *words: str, stdin: str = "", check: bool = False, timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weft", *words]
        done = subprocess.run(
            command, env=self.env, cwd=self.root, input=stdin, capture_output=True, text=True, timeout=timeout_s,
            check=False,
        )  # fmt: skip
        with contextlib.suppress(OSError, ValueError):
            self.started.add(self.pid())
        assert not check or done.returncode == 0, done.stderr
        return done

    def close(self) -> None:
        """Ends the scheduler and whatever it runs."""
        with contextlib.suppress(Exception), self.client() as client:
            client.operate(SHUTDOWN, kill="yes")
        for pid in self.started:
            with contextlib.suppress(AssertionError):
                until(lambda pid=pid: not is_alive(pid), 10.0)  # type: ignore[misc]
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def site(settings: Mapping[str, object], **env: str) -> Iterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="weft-t-"))
    keep = plain_env()
    made = Site(root, {**keep, "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "HOME": str(root), **env})
    made.settings(**settings)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


def until(holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Waits until something holds, and returns it. It waits twice as long as a look takes, such as one by a command:
    looks leave most of the machine to what they wait for."""
    end = time.monotonic() + patience_s
    while True:
        began = time.monotonic()
        if found := holds():
            return found
        now = time.monotonic()
        assert now < end, "it never came to pass"
        time.sleep(min(max(0.01, 2 * (now - began)), 0.25))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
