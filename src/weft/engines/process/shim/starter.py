"""The warm starter: keeps a few shims ready for start orders, and forks more when they run out.

Idle shims all wait at one socket, from which the kernel gives each order to one of them. A shim that has ended its
run waits again, so that a short run costs no fork. Without the engine (its ends of the sockets close) the starter and
idle shims end; shims that have a run do not notice.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource  # noqa: F401  wait4 imports it, and after the fork every shim would have to
import select
import signal
import socket
from typing import Final

from weft.engines.process.shim.process_id import boot_id
from weft.engines.process.shim.shim import Shim

LARGEST: Final = 65536
"""An order that is longer goes through a file."""
MOST_IDLE: Final = 8
RUNS_PER_SHIM: Final = 1000
"""Nothing is collected in a shim, so it does not live for ever."""
_FORK_AGAIN_MS: Final = 100
_SUBREAPER: Final = 36
_libc: Final = ctypes.CDLL(None)


class Pool:
    """What starter and shims share: counters in the kernel, which survive whoever is killed."""

    def __init__(self, orders: socket.socket) -> None:
        self.orders = orders
        self.idle = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.seats = os.eventfd(MOST_IDLE, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.wanted = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._any_idle = select.poll()
        self._any_idle.register(self.idle, select.POLLIN)
        self._order = bytearray(LARGEST)

    def sit(self) -> bool:
        """Count as idle; False: enough others are."""
        try:
            os.eventfd_read(self.seats)
        except BlockingIOError:
            return False
        os.eventfd_write(self.idle, 1)
        return True

    def rise(self) -> None:
        """Be busy; whoever leaves nobody idle asks for another."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.idle)
        os.eventfd_write(self.seats, 1)
        if not self._any_idle.poll(0):
            os.eventfd_write(self.wanted, 1)

    def lose(self) -> None:
        """A shim was killed, perhaps an idle one. Too few counted as idle does no harm; too many would."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.idle)
        os.eventfd_write(self.seats, 1)

    def take(self) -> bytes:
        """The next order, once there is one; nothing: there will be none."""
        return bytes(self._order[: self.orders.recv_into(self._order)])


def main(control_fd: int, orders_fd: int) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for handle in (control_fd, orders_fd):
        os.set_inheritable(handle, False)
    os.umask(0o077)
    os.chdir("/")
    boot_id()
    pool = Pool(socket.socket(fileno=orders_fd))
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page that a shim shares with the starter
    events = select.poll()
    events.register(control_fd, select.POLLIN)
    events.register(pool.wanted, select.POLLIN)
    wanted = 1
    while True:
        while wanted and _fork(pool, control_fd):
            wanted -= 1
        ready = dict(events.poll(_FORK_AGAIN_MS if wanted else 1000))
        if control_fd in ready:
            return
        if pool.wanted in ready:
            os.eventfd_read(pool.wanted)
            wanted = 1
        for _ in range(_killed()):
            pool.lose()
            wanted += 1


def _fork(pool: Pool, control_fd: int) -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False  # no process to be had just now
    if pid:
        return True
    try:
        os.close(control_fd)
        _work(pool)
    finally:
        os._exit(0)


def _killed() -> int:
    """Collect the dead; how many of them did not end by themselves."""
    killed = 0
    with contextlib.suppress(ChildProcessError):
        while status := os.waitpid(-1, os.WNOHANG):
            if not status[0]:
                break
            killed += os.WIFSIGNALED(status[1])
    return killed


def _work(pool: Pool) -> None:
    """One shim: a run at a time."""
    os.setsid()
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    for _ in range(RUNS_PER_SHIM):
        if not pool.sit():
            return
        raw = pool.take()
        pool.rise()
        if not raw or not _serve(raw):
            return


def _serve(raw: bytes) -> bool:
    order = json.loads(raw)
    if "file" in order:
        with open(order["file"], "rb") as file:
            raw = file.read()
        os.unlink(order["file"])
        order = json.loads(raw)
    return Shim(order, raw).run()
