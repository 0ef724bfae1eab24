"""What a command costs from the first instruction to the last, imports and all."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure, least
from weft.wire.views.operations import SHUTDOWN

GOALS = {"version": 0.15, "queue": 0.3, "queue --json": 0.3, "submit --quiet -- true": 0.3, "policies": None}


def figures() -> Iterator[Figure]:
    """With a scheduler at hand, so that none is started on the way."""
    from weft.client import Client
    from weft.endpoints.paths import places

    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        env = {**os.environ, "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r"}
        where = places(env)
        where.make()
        (where.state / "settings.json").write_text(json.dumps({"gpus": "0,1"}))
        with Client(where) as client:
            for words, goal in GOALS.items():
                yield Figure(f"weft {words}", least(lambda w=words: _cpu_s(w, env, Path(root)), 5), "CPU s", goal)  # type: ignore[misc]
            pid = int(where.lock.read_text())
            client.operate(SHUTDOWN, kill="yes")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _cpu_s(words: str, env: dict[str, str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "weft", *words.split()]
    subprocess.run(command, env=env, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
