"""The warm starter: takes start orders from the engine and forks a shim for each.

It does not outlive the engine (its end of the socket closes), while shims and commands do.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
import struct
import time
from typing import Final

from weft.local import files
from weft.local.identity import boot_id
from weft.local.shim import Shim

LENGTH: Final = struct.Struct("<I")
FORK_PATIENCE_S: Final = 5.0
_BUSY: Final = (errno.EAGAIN, errno.ENOMEM)


def main(channel_fd: int) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for shims: let the kernel reap them
    os.umask(0o077)
    os.chdir("/")
    boot_id()
    channel = socket.socket(fileno=channel_fd)
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page that a shim shares with the starter
    pending = b""
    while True:
        more = channel.recv(1 << 20)
        if not more:
            return
        pending += more
        while len(pending) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(pending)[0]
            if len(pending) < end:
                break
            raw, pending = pending[LENGTH.size : end], pending[end:]
            _take(raw, channel)


def _take(raw: bytes, channel: socket.socket) -> None:
    error = _fork(raw, channel)
    if error is not None:
        order = json.loads(raw)
        answer = files.to_json({"job": order["job"], "run": order["run"], "error": error})
        channel.sendall(LENGTH.pack(len(answer)) + answer)


def _fork(raw: bytes, channel: socket.socket) -> str | None:
    """Fork the shim of one order. A machine that has no process to give is asked again for a while."""
    until = time.monotonic() + FORK_PATIENCE_S
    while True:
        try:
            pid = os.fork()
        except OSError as error:
            if error.errno not in _BUSY or time.monotonic() > until:
                return f"cannot fork: {error.strerror}"
            time.sleep(0.1)
            continue
        if pid:
            return None
        try:
            channel.close()
            Shim(json.loads(raw), raw).run()
        finally:
            os._exit(0)
