"""A separate scheduler for a benchmark: in a temporary directory, with declared GPUs that are all busy."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import weft
from weft.access.client.api import connection, disconnect
from weft.access.endpoints.paths import user_paths
from weft.views.answers.operations import SHUTDOWN

GPUS = 2


@contextmanager
def busy_scheduler() -> Iterator[int]:
    """Yield the pid of a scheduler in which every new job waits. It ends with the block."""
    with TemporaryDirectory(prefix="weft-b-") as name:
        before = dict(os.environ)
        os.environ.update(XDG_STATE_HOME=f"{name}/s", XDG_RUNTIME_DIR=f"{name}/r")
        here = user_paths()
        here.make()
        settings = {"gpus": ",".join(map(str, range(GPUS))), "models": ",".join("A" * GPUS), "min_run_s": 0}
        (here.state / "settings.json").write_text(json.dumps(settings))
        try:
            running = weft.submit_many([{"command": ["sleep", "3600"], "priority": 9}] * GPUS)
            pid = int(here.lock.read_text())
            while any(job.status != "running" for job in running):
                time.sleep(0.02)
            yield pid
        finally:
            connection(here).operate(SHUTDOWN, kill="yes")
            disconnect(here)
            while _is_alive(pid):
                time.sleep(0.02)
            os.environ.clear()
            os.environ.update(before)


def _is_alive(pid: int) -> bool:
    """Return whether a child of this process is alive: a child that has ended stays as a zombie."""
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of another process."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
