"""The first commands on a fresh machine, with empty /var/lib, /run and home: as root, and as a plain user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import until
from support.running.loopback_namespace import need_torch, needed, nowhere_else

ROOT = Path(__file__).resolve().parents[3]
HOME = "/run/home"
WORKER = "--gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576"
READS_ALL = "+dac_read_search"
"""Lets a plain user read this checkout and its interpreter wherever they are, and write nothing."""


class FreshMachine:
    def __init__(self, inside: tuple[str, ...], account: str, logs: Path) -> None:
        self._logs = logs
        become = ["setpriv", f"--reuid={account}", "--regid=65534", "--clear-groups", f"--inh-caps={READS_ALL}",
                  f"--ambient-caps={READS_ALL}", "--"]  # fmt: skip
        env = ["env", "-C", str(ROOT), "-i", f"PATH={ROOT}/.venv/bin:{os.environ['PATH']}", f"HOME={HOME}"]
        self._prefix = [*inside, *(become if account != "root" else []), *env, f"USER={account}"]
        subprocess.run([*inside, "install", "-d", "-o", account, HOME], check=True)

    def weft(self, *words: str) -> Any:
        command = [*self._prefix, "weft", *words, "--scheduler", "localhost", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    @contextmanager
    def terminal(self, line: str, text: str) -> Iterator[None]:
        """Run a command in the foreground of a terminal, and go on when it has printed this text."""
        log = self._logs / line[:20]
        words = line.replace("make ", "make --no-print-directory -o .venv/.ready -o .venv/.workloads-ready ").split()
        with log.open("wb") as out:
            process = subprocess.Popen([*self._prefix, *words], stdout=out, stderr=out, start_new_session=True)
        try:
            until(lambda: text in log.read_text() or process.poll() is not None)
            assert text in log.read_text(), f"{line}: {log.read_text()}"
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@pytest.fixture(params=["root", "nobody"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FreshMachine]:
    need_torch()  # `make submit` trains
    needed("root", os.geteuid() == 0, "empty system folders take a mount namespace")
    with nowhere_else("/var/lib", "/run") as inside:
        yield FreshMachine(inside, request.param, tmp_path)


def test_the_lines_of_the_makefile_and_a_worker_by_hand(machine: FreshMachine) -> None:
    by_hand = f"weft worker --id by-hand --folder {HOME}/new/w1 {WORKER}"
    with machine.terminal("make server", "listens"), machine.terminal("make worker", " joined"):
        with machine.terminal("make submit", "submitted job 1"):
            until(lambda: machine.weft("show", "1")["jobs"][0]["status"] != "waiting")
        assert machine.weft("show", "1")["jobs"][0]["status"] == "running"
        with machine.terminal("make monitor", "ResNet50"), machine.terminal(by_hand, " joined"):
            machine.weft("cancel", "-y", "1")
    with (
        machine.terminal("make master SCHEDULER=srsf", "listens"),
        machine.terminal(f"weft worker --id by-hand {WORKER}", " joined"),
        machine.terminal("make run1 WORKER_PORT=9001 GPUS=0", " joined"),
    ):
        assert {node["node"] for node in machine.weft("nodes")["nodes"]} >= {"1", "by-hand"}
