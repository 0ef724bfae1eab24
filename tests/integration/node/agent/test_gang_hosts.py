"""A gang over two hosts whose names resolve to 127.0.1.1 on themselves, as on Debian: real torch, DDP, gloo."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plain_env import plain_env
from support.running.linked_hosts import Host, linked_hosts
from support.running.live_cluster import SOURCE
from support.running.local_scheduler import until
from support.running.loopback_namespace import need_torch

TRAINING = str(Path(__file__).parents[3] / "support" / "programs" / "ddp_training.py")
PORT = 50051


class Machine:
    """A host with a home folder, used as a user would."""

    def __init__(self, host: Host, home: Path) -> None:
        home.mkdir()
        keep = plain_env()
        self.host, self.home = host, home
        self.env = {**keep, "HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/r", "PYTHONPATH": SOURCE}

    def weft(self, *words: str) -> str:
        command = [*self.host.prefix, sys.executable, "-m", "weft", *words]
        done = subprocess.run(command, env=self.env, cwd=self.home, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [*self.host.prefix, sys.executable, "-m", "weft", *words]
        return subprocess.Popen(command, env=self.env, cwd=self.home, stdin=subprocess.DEVNULL)

    def connected(self) -> set[str]:
        nodes = json.loads(self.weft("nodes", "--json"))["nodes"]
        return {node["node"] for node in nodes if node["state"] == "connected"}


@pytest.fixture
def machines() -> Iterator[tuple[Machine, Machine]]:
    root = Path(tempfile.mkdtemp(prefix="weft-h-"))  # short: sockets are in it
    with linked_hosts(root) as hosts:
        yield Machine(hosts[0], root / "left"), Machine(hosts[1], root / "right")
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.soak
def test_ddp_between_hosts_whose_names_are_loopback_to_themselves(machines: tuple[Machine, Machine]) -> None:
    need_torch()
    head, other = machines
    at = f"{head.host.address}:{PORT}"
    head.weft("auth", "init", "--host", head.host.address)
    processes = [head.start("server", "--host", head.host.address, "--port", str(PORT), "--policy", "fifo")]
    try:
        until(lambda: (head.home / ".local/state/weft/servers" / str(PORT) / "token").exists())
        head.env["WEFT_SCHEDULER"] = at
        until(lambda: _answers(head))
        token = json.loads(head.weft("auth", "token", "--role", "worker", "--json"))["token"]
        other.weft("auth", "join", at, token, "--node", "right")
        for machine in (head, other):
            worker = ("worker", "--scheduler", at, "--id", machine.host.name, "--addr", f"{machine.host.name}:0")
            processes.append(machine.start(*worker, "--gpus", "0"))
        until(lambda: head.connected() == {"left", "right"})
        (job,) = json.loads(head.weft("submit", "--json", "--gpus", "2", "--", sys.executable, TRAINING, "5"))["ids"]
        head.weft("wait", str(job))
        for rank in ("0", "1"):
            assert "done, agree True" in head.weft("logs", str(job), "--rank", rank)
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


def _answers(head: Machine) -> bool:
    command = [*head.host.prefix, sys.executable, "-m", "weft", "nodes"]
    return subprocess.run(command, env=head.env, cwd=head.home, capture_output=True).returncode == 0
