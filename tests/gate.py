"""A scheduler that listens on a port, for tests of its doors: `python gate.py FOLDER HOST PORT`.

It is the scheduler of one machine, with the service and the doors of a cluster's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from live import PATIENCE_S, until
from weft.server.callers import Role
from weft.server.doors import Doors
from weft.server.tokens import Tokens
from weft.wire.addresses import Address
from weft.wire.credentials import Credentials, answers, server_folder


@dataclass
class Gate:
    """A scheduler behind its doors, and the environment of its own user."""

    root: Path
    where: Address
    env: dict[str, str]
    process: subprocess.Popen[bytes]

    @property
    def folder(self) -> Path:
        return server_folder(self.where.port, self.env)

    def invited(self, role: Role = "user", user: str = "ada", expires_s: float = 600.0) -> str:
        """A join token."""
        from weft.server import tls

        material, tokens = tls.load(self.folder), Tokens(self.folder)
        try:
            fingerprint = material.fingerprint if material else ""
            return tokens.invite(role, user, expires_s=expires_s, by="test", fingerprint=fingerprint)
        finally:
            tokens.close()

    def credentials(self, role: Role = "user", user: str = "ada", node: str = "") -> Credentials:
        """Of somebody who has joined."""
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
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
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
        until(lambda: self.process.poll() is not None or answers(self.where))

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def gate(*, tls: bool = True) -> Iterator[Gate]:
    root = Path(tempfile.mkdtemp(prefix="weft-g-"))  # short: sockets are in it
    where = Address("localhost", free_port())
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
    env = {**keep, "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r",
           "XDG_CONFIG_HOME": f"{root}/c"}  # fmt: skip
    if tls:
        from weft.server.authority import init

        init(server_folder(where.port, env), [])
    command = [sys.executable, __file__, str(server_folder(where.port, env)), "127.0.0.1", str(where.port)]
    made = Gate(root, where, env, subprocess.Popen(command, env=env, cwd=root))
    try:
        until(lambda: made.process.poll() is not None or answers(where))
        assert made.process.poll() is None
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


async def serve(folder: Path, host: str, port: int) -> None:
    from weft.server.embedded import Embedded
    from weft.server.running import Running
    from weft.server.service import Service
    from weft.server.settings import Settings
    from weft.wire.machine import this_machine
    from weft.wire.places import Places

    settings = Settings(gpus="0,1", models="RTX3090,RTX3090", memories="24576,24576", idle_s=0.0)
    here = Places(folder, folder / "run")
    here.make()
    fleet = Embedded(*this_machine(settings.gpus, settings.models, settings.memories))
    running = Running(here, settings, fleet)
    doors = Doors(folder)
    server = doors.server()
    server.add_generic_rpc_handlers((Service(running).handler(),))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, running.stopping.set)
    await running.open()
    doors.listen(server, host, port)
    doors.open()
    await server.start()
    await running.stopping.wait()
    fleet.kill_all()
    await server.stop(grace=0.5)
    await doors.close()
    await running.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
