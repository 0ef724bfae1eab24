"""The CPU time of commands, user and system, imports included.

Each figure is the median of several runs, followed by the least of them and by the ratio of the median to that of
`python -c pass`: a busy machine slows both.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.figure import Figure

RUNS = 15
WEFT = (sys.executable, "-m", "weft")
SUBMIT = "submit --quiet --hold --gpus 0 -- true"
LOCAL = {"version": 0.06, "queue": 0.10, "queue --json": 0.10, SUBMIT: 0.10, "policies": None}
CLUSTER = {"queue": 0.13, SUBMIT: 0.13}
START_TIMEOUT_S = 20.0


def figures() -> Iterator[Figure]:
    """Measure commands with a running scheduler, so that no command starts one."""
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        env = {**os.environ, "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
        bare = _cpu_s([sys.executable, "-I", "-S", "-c", "pass"], env, Path(root))
        yield from _both("python -I -S -c pass", bare, None)
        empty = _cpu_s([sys.executable, "-c", "pass"], env, Path(root))
        yield from _both("python -c pass", empty, None)
        empty_s = statistics.median(empty)
        with _local_scheduler(env):
            yield from _measure("weft", LOCAL, (), env, Path(root), empty_s)
        for title, secure in (("cluster: weft", False), ("cluster over TLS: weft", True)):
            with _cluster_scheduler(env, secure=secure) as address:
                yield from _measure(title, CLUSTER, ("--scheduler", address), env, Path(root), empty_s)


def _measure(
    title: str, goals: Mapping[str, float | None], more: tuple[str, ...], env: dict[str, str], folder: Path,
    empty_s: float,
) -> Iterator[Figure]:  # fmt: skip
    for words, goal in goals.items():
        command, *rest = words.split()
        spent = _cpu_s([*WEFT, command, *more, *rest], env, folder)
        yield from _both(f"{title} {words}", spent, goal)
        yield Figure(f"{title} {words}, times python -c pass", statistics.median(spent) / empty_s, "x")


def _both(what: str, spent: Sequence[float], goal: float | None) -> Iterator[Figure]:
    yield Figure(what, statistics.median(spent), "CPU s", goal)
    yield Figure(f"{what}, least", min(spent), "CPU s")


def _cpu_s(command: list[str], env: dict[str, str], folder: Path) -> list[float]:
    spent = []
    for _ in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=env, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent[1:]  # the first run may compile


@contextlib.contextmanager
def _local_scheduler(env: dict[str, str]) -> Iterator[None]:
    from weft.access.client import Client
    from weft.access.endpoints.paths import user_paths
    from weft.views.answers.operations import SHUTDOWN

    where = user_paths(env)
    where.make()
    (where.state / "settings.json").write_text(json.dumps({"gpus": "0,1"}))
    with Client(where) as client:
        yield
        pid = int(where.lock.read_text())
        client.operate(SHUTDOWN, kill="yes")
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@contextlib.contextmanager
def _cluster_scheduler(env: dict[str, str], *, secure: bool) -> Iterator[str]:
    """Run a cluster's scheduler and yield its address. `secure`: with a certificate, over TLS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if secure:
        init = [*WEFT, "auth", "init", "--port", str(port)]
        subprocess.run(init, env=env, stdout=subprocess.DEVNULL, check=True)
    with subprocess.Popen([*WEFT, "server", "--port", str(port)], env=env, stdout=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + START_TIMEOUT_S
            while not _is_listening(port):
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the server did not start")
                time.sleep(0.05)
            yield f"localhost:{port}"
        finally:
            server.send_signal(signal.SIGTERM)


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
