"""The engine's client of the warm starter: starts it, sends launch specs to its shims, notices when it exits."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.node.engine.shim import run_files
from weft.node.engine.shim.requests import MAX_INLINE_BYTES

_SOURCE: Final = str(Path(__file__).resolve().parents[3])
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1]); from weft.node.engine.shim.starter import main; "
    "main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)
_PYTHON: Final = ("-I", "-S", "-X", "utf8", "-c", _CODE)
"""No caller environment and no site packages: a small process forks fast."""

SPOOL_PREFIX: Final = "order-"
_guards: Final[list[subprocess.Popen[bytes]]] = []
"""Starters that guard the runs of a closed engine, until they are reaped."""


def remove_spooled(spool_dir: str) -> None:
    """Remove launch specs that no shim read before an earlier engine ended. Their runs never start."""
    for name in os.listdir(spool_dir):
        if name.startswith(SPOOL_PREFIX):
            os.unlink(f"{spool_dir}/{name}")


class StarterClient:
    """One starter process and the socket at which its shims wait; calls `on_exit` when the starter has exited.

    With `lease`, the path of a lease file, the starter outlives this client until its runs have ended.
    """

    def __init__(self, spool_dir: str, on_exit: Callable[[], None], lease: str = "") -> None:
        self._spool_dir, self._on_exit, self._lease = spool_dir, on_exit, lease
        _guards[:] = [guard for guard in _guards if guard.poll() is None]
        self._loop = asyncio.get_running_loop()
        self._control, control = socket.socketpair()
        self._launches, launches = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: deque[bytes] = deque()
        try:
            self._process = _spawn(control.fileno(), launches.fileno(), lease)
        except OSError:
            self._control.close()
            self._launches.close()
            raise
        finally:
            control.close()
            launches.close()
        self._launches.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._on_starter_exit)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, spec: bytes) -> None:
        if len(spec) > MAX_INLINE_BYTES:
            path = f"{self._spool_dir}/{SPOOL_PREFIX}{secrets.token_hex(8)}"
            run_files.write_new(path, spec)
            spec = run_files.to_json({"file": path})
        if not self._waiting and self._try_send(spec):
            return
        if not self._waiting:
            self._loop.add_writer(self._launches.fileno(), self._flush)
        self._waiting.append(spec)

    def close(self) -> None:
        """End idle shims, and the starter unless it guards runs that have a lease. Runs continue."""
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._launches.fileno())
        self._control.close()
        self._launches.close()
        if self._lease and self._process.poll() is None:
            _guards.append(self._process)
            return
        self._process.kill()
        self._process.wait()

    def _try_send(self, spec: bytes) -> bool:
        try:
            self._launches.send(spec)
        except BlockingIOError:
            return False
        except OSError:
            pass  # no reader is left: the exit of the starter is noticed shortly
        return True

    def _flush(self) -> None:
        while self._waiting and self._try_send(self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting:
            self._loop.remove_writer(self._launches.fileno())

    def _on_starter_exit(self) -> None:
        self.close()
        self._on_exit()


def _spawn(control: int, launches: int, lease: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *_PYTHON, _SOURCE, str(control), str(launches), lease],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control, launches),
        start_new_session=True,
        env={},
        cwd=os.sep,
    )
