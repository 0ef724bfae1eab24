"""The router that a scheduler starts for its services, and starts again when it ends.

The scheduler holds the socket that listens, so connections wait while a router starts. A router outlives its scheduler:
the next one finds it by its record, and requests go on meanwhile.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from weft.access.endpoints.addresses import Address
from weft.errors import MissingPackage, Refused
from weft.inputs.atomic import write_atomic
from weft.node.engine.shim.process_id import Identity, identify, is_alive, send_signal

FIRST_PORT: Final = 8080
"""The port to try first. Afterwards the port stays the same, so that URLs do."""
BACKLOG: Final = 1024
RESTART_S: Final = 1.0
"""The least time between two starts."""
HANDOVER_S: Final = 0.25
PORT_PATIENCE_S: Final = 10.0
"""The time to wait for the port of before: a router that was killed may hold it for a moment."""
log = logging.getLogger(__name__)


Command = Callable[[int], Sequence[str]]
"""Returns the command of a router that serves the listening socket of this number."""


class RouterProcess:
    """One router on this machine. By default it serves this user's scheduler, on loopback."""

    def __init__(
        self, state: Path, runtime: Path, command: Command | None = None, *, host: str = "127.0.0.1", port: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`port`: use only this one. 0: the one of before, or a free one."""
        self._state, self._runtime = state, runtime
        self._command, self._host, self._only_port, self._env = command or self._local_command, host, port, env
        self._record, self._log = state / "router.json", state / "router.log"
        self._socket: socket.socket | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._process, self.port, self._moved = self._read()
        self._started_at, self._refused_at = float("-inf"), float("inf")

    @property
    def address(self) -> str:
        """The address of the router; empty: none was ever started."""
        return str(Address(self._host, self.port)) if self.port else ""

    @property
    def holds_socket(self) -> bool:
        """Return whether connections wait while no router runs."""
        return self._socket is not None

    @staticmethod
    def check() -> None:
        """Raise if no router can start, because its packages are not installed."""
        if find_spec("httptools") is None:
            raise Refused(f"a service needs a router where its scheduler runs: {MissingPackage('httptools')}")

    def adopt(self) -> None:
        """Take over the router of an earlier scheduler. From then on connections wait if it dies."""
        if self._moved:  # it listens elsewhere than this scheduler wants
            self.stop()
            self.port, self._moved = 0, False
        elif self._socket is None and self._is_alive():
            self._socket = self._receive_socket()

    def ensure(self) -> None:
        """Start a router unless one runs."""
        if self._child is not None and self._child.poll() is not None:
            log.warning("the router ended with code %s; see %s", self._child.returncode, self._log)
            self._child = None
        if self._is_alive():
            self.adopt()
            return
        if time.monotonic() - self._started_at >= RESTART_S:
            self._start()

    def has_ended(self) -> bool:
        """Return whether the last router has ended."""
        if self._child is not None:
            return self._child.poll() is not None
        return not self._is_alive()

    def stop(self) -> None:
        """End the router, after the requests it has."""
        if self._process is not None:
            with suppress(OSError):
                send_signal(self._process, signal.SIGTERM)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        with suppress(FileNotFoundError):
            self._record.unlink()
        self._process = None

    def _is_alive(self) -> bool:
        return self._process is not None and is_alive(self._process)

    def _start(self) -> None:
        self._started_at = time.monotonic()
        listening = self._listen()
        if listening is None:
            log.error("cannot start a router: %s is not free", Address(self._host, self._only_port or self.port))
            return
        with open(self._log, "ab") as output:
            self._child = subprocess.Popen(
                self._command(listening.fileno()), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=(listening.fileno(),), start_new_session=True, cwd="/", env=self._env,
            )  # fmt: skip
        self._process = identify(self._child.pid)
        record = {
            "host": self._host, "port": self.port, "process": list(self._process) if self._process else None
        }  # fmt: skip
        write_atomic(self._record, json.dumps(record).encode())
        log.info("started a router at %s, pid %d", self.address, self._child.pid)

    def _local_command(self, number: int) -> Sequence[str]:
        return sys.executable, "-m", "weft.router", str(number), str(self._state), str(self._runtime)

    def _listen(self) -> socket.socket | None:
        """Return the socket of the router; None: its port is not free. The port of before stays if that is possible."""
        if self._socket is not None:
            return self._socket
        for port in self._ports():
            found = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind((self._host, port))
                found.listen(BACKLOG)
            except OSError:
                found.close()
                continue
            self._socket, self.port, self._refused_at = found, found.getsockname()[1], float("inf")
            return found
        self._refused_at = min(self._refused_at, self._started_at)
        return None

    def _ports(self) -> Sequence[int]:
        """Return the ports to try. Only after some time a router moves to another one than before: URLs change."""
        if self._only_port:
            return (self._only_port,)
        if self.port and self._started_at < self._refused_at + PORT_PATIENCE_S:
            return (self.port,)
        return FIRST_PORT, 0

    def _receive_socket(self) -> socket.socket | None:
        """Return a copy of the socket of a router that an earlier scheduler started; None: it does not answer yet."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
                door.settimeout(HANDOVER_S)
                door.connect(str(self._runtime / "router.sock"))
                _, handles, _, _ = socket.recv_fds(door, 1, 1)
        except OSError:
            return None
        return socket.socket(fileno=handles[0]) if handles else None

    def _read(self) -> tuple[Identity | None, int, bool]:
        """Return the process and the port of the last router, and whether it listens elsewhere than it should."""
        try:
            found = json.loads(self._record.read_bytes())
            process, port = found["process"], int(found["port"])
            moved = found.get("host", self._host) != self._host or self._only_port not in (0, port)
            return Identity(*process) if process else None, port, moved
        except FileNotFoundError:
            return None, 0, False
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("cannot read %s: %s", self._record, error)
            return None, 0, False
