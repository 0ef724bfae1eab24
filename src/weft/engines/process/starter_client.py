"""The engine's end of the warm starter: starts it, sends orders to its shims, notices when it has gone."""

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

from weft.engines.process.shim import run_files
from weft.engines.process.shim.starter import MAX_INLINE_BYTES

_SOURCE: Final = str(Path(__file__).resolve().parents[3])
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1]); from weft.engines.process.shim.starter import main; "
    "main(*map(int, sys.argv[2:]))"
)
_PYTHON: Final = ("-I", "-S", "-X", "utf8", "-c", _CODE)
"""Nothing of the caller's environment, no site packages: a small process forks fast."""

SPOOLED: Final = "order-"


def remove_spooled(spool_dir: str) -> None:
    """Remove orders that nobody took before an earlier engine ended: their runs are given up."""
    for name in os.listdir(spool_dir):
        if name.startswith(SPOOLED):
            os.unlink(f"{spool_dir}/{name}")


class StarterClient:
    """One starter process and the socket at which its shims wait; `gone` is called when the starter has died."""

    def __init__(self, spool_dir: str, gone: Callable[[], None]) -> None:
        self._spool_dir, self._gone = spool_dir, gone
        self._loop = asyncio.get_running_loop()
        self._control, control = socket.socketpair()
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: deque[bytes] = deque()
        try:
            self._process = _spawn(control.fileno(), orders.fileno())
        except OSError:
            self._control.close()
            self._orders.close()
            raise
        finally:
            control.close()
            orders.close()
        self._orders.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._lost)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: bytes) -> None:
        if len(order) > MAX_INLINE_BYTES:
            path = f"{self._spool_dir}/{SPOOLED}{secrets.token_hex(8)}"
            run_files.write_new(path, order)
            order = run_files.to_json({"file": path})
        if not self._waiting and self._sent(order):
            return
        if not self._waiting:
            self._loop.add_writer(self._orders.fileno(), self._send_waiting)
        self._waiting.append(order)

    def close(self) -> None:
        """Let starter and idle shims end by themselves; the runs do not notice."""
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._orders.fileno())
        self._control.close()
        self._orders.close()
        self._process.kill()
        self._process.wait()

    def _sent(self, order: bytes) -> bool:
        try:
            self._orders.send(order)
        except BlockingIOError:
            return False
        except OSError:
            pass  # nobody is left to take it: that the starter has gone is noticed in a moment
        return True

    def _send_waiting(self) -> None:
        while self._waiting and self._sent(self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting:
            self._loop.remove_writer(self._orders.fileno())

    def _lost(self) -> None:
        self.close()
        self._gone()


def _spawn(*handles: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *_PYTHON, _SOURCE, *map(str, handles)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=handles,
        start_new_session=True,
        env={},
        cwd=os.sep,
    )
