"""A scheduler of a cluster behind its doors, with one worker: real processes, in folders that go with the test."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from support.plain_env import plain_env
from support.running.local_scheduler import PATIENCE_S, until
from weft.access.auth.identity import Role
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, is_listening
from weft.access.endpoints.paths import server_folder


@dataclass
class Gate:
    """A scheduler with TLS and tokens, and the environment of its user."""

    root: Path
    where: Address
    env: dict[str, str]
    process: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return server_folder(self.where.port, self.env)

    def invited(self, role: Role = "user", user: str = "ada", expires_s: float = 600.0) -> str:
        """A join token."""
        from weft.access.auth import tls

        material, tokens = tls.load(self.folder), Tokens(self.folder)
        try:
            fingerprint = material.fingerprint if material else ""
            return tokens.invite(role, user, expires_s=expires_s, by="test", fingerprint=fingerprint)
        finally:
            tokens.close()

    def credentials(self, role: Role = "user", user: str = "ada", node: str = "") -> Credentials:
        """Return the credentials of a user who has joined."""
        tokens = Tokens(self.folder)
        try:
            return Credentials(tokens.join(self.invited(role, user), node)[0], self.ca())
        finally:
            tokens.close()

    def ca(self) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "ca.pem").read_bytes()
        return None

    def owner(self) -> Credentials:
        return Credentials((self.folder / "token").read_text().strip(), self.ca())

    def visitor(self, name: str) -> dict[str, str]:
        """The environment of another user, who has nothing of the owner's."""
        keep = plain_env()
        home = self.root / name
        home.mkdir(exist_ok=True)
        return {**keep, "HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/r"}

    def weft(self, *words: str, env: dict[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "weft", *words], env=env or self.env, cwd=self.root, input=stdin,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def calls(self) -> int:
        """Connections that the scheduler holds."""
        ours = f"0100007F:{self.where.port:04X}"  # also at the end of what it is as IPv6
        tables = [Path(f"/proc/{self.process.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        return sum(row[1].endswith(ours) and row[3] == "01" for row in rows)

    def restart(self) -> None:
        """It dies without a word, and comes back."""
        self.process.kill()
        self.process.wait()
        self.process = subprocess.Popen(self.process.args, env=self.env, cwd=self.root)
        until(lambda: self.process.poll() is not None or is_listening(self.where))

    def hire(self, *words: str) -> None:
        """A worker with two GPUs, of the owner's."""
        gpus = ("--gpus", "0,1", "--models", "RTX3090,RTX3090", "--memories", "24576,24576")
        command = [sys.executable, "-m", "weft", "worker", "--scheduler", str(self.where), "--id", "n1", *gpus, *words]
        self.worker = subprocess.Popen(command, env=self.env, cwd=self.root)
        at = ("--scheduler", str(self.where), "--json")
        until(
            lambda: any(
                node["alive"] for node in json.loads(self.weft("nodes", *at).stdout or '{"nodes": []}')["nodes"]
            )
        )

    def close(self) -> None:
        """Ends the jobs, then the worker, then the scheduler."""
        at = ("--scheduler", str(self.where))
        with contextlib.suppress(AssertionError, ValueError, subprocess.TimeoutExpired):
            if self.worker is not None and not self.weft("cancel", "--all", "-y", *at).returncode:
                until(lambda: not json.loads(self.weft("queue", "--json", *at).stdout)["jobs"])
        for process in filter(None, (self.worker, self.process)):
            process.terminate()
            try:
                process.wait(20.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port below those of outgoing connections, so that no connection takes it before the server does."""
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def gate(*words: str, tls: bool = True, worker: bool = False) -> Iterator[Gate]:
    root = Path(tempfile.mkdtemp(prefix="weft-g-"))  # short: sockets are in it
    where = Address("localhost", free_port())
    keep = plain_env()
    env = {**keep, "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r",
           "XDG_CONFIG_HOME": f"{root}/c"}  # fmt: skip
    if tls:
        from weft.access.auth.certificates import init

        init(server_folder(where.port, env), [])
    command = [sys.executable, "-m", "weft", "server", "--port", str(where.port), *words]
    made = Gate(root, where, env, subprocess.Popen(command, env=env, cwd=root))
    try:
        until(lambda: made.process.poll() is not None or is_listening(where))
        assert made.process.poll() is None
        if worker:
            made.hire()
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)
