"""The warm starter: keeps a few shims ready for launch specs, and forks more when they run out.

Idle shims all wait at one socket, and the kernel gives each launch spec to one of them. A shim that has finished its
run waits again, so that a short run costs no fork. When the engine closes its ends of the sockets, idle shims exit;
shims with a run continue. The starter exits too, unless runs have a lease: then it stays as their guard until they have
ended. It inherits the processes of a killed shim, and kills them when the lease has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource  # noqa: F401  wait4 imports it; imported here, forked shims share it
import select
import signal
import socket
import struct
from typing import Final

from weft.node.engine import lease
from weft.node.engine.shim import process_tree
from weft.node.engine.shim.process_id import boot_id
from weft.node.engine.shim.requests import MAX_INLINE_BYTES
from weft.node.engine.shim.shim import Shim

MAX_IDLE_SHIMS: Final = 8
SPARE_IDLE_S: Final = 10
"""A shim that waits for this long ends if another one waits, too, or if it has served runs."""
RUNS_PER_SHIM: Final = 1000
"""A shim collects no garbage, so it is replaced after this many runs."""
_FORK_RETRY_MS: Final = 100
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc: Final = ctypes.CDLL(None)


class IdleShims:
    """The idle shims, counted in the kernel so that the counts survive when a shim is killed."""

    def __init__(self, launches: socket.socket) -> None:
        self.launches = launches
        self.idle = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.vacancies = os.eventfd(MAX_IDLE_SHIMS, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.wanted = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._any_idle = select.poll()
        self._any_idle.register(self.idle, select.POLLIN)
        launches.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SPARE_IDLE_S, 0))
        self._buffer = bytearray(MAX_INLINE_BYTES)

    def enter(self) -> bool:
        """Count this shim as idle; return False if enough others are idle."""
        try:
            os.eventfd_read(self.vacancies)
        except BlockingIOError:
            return False
        os.eventfd_write(self.idle, 1)
        return True

    def leave(self) -> None:
        """Count this shim as busy, and request another if none is idle."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.idle)
        os.eventfd_write(self.vacancies, 1)
        if not self._any_idle.poll(0):
            os.eventfd_write(self.wanted, 1)

    def count_killed(self) -> None:
        """Subtract a killed shim, whether or not it was idle: counting too few is harmless, too many is not."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.idle)
        os.eventfd_write(self.vacancies, 1)

    def receive(self, *, is_fresh: bool) -> bytes:
        """Wait for the next launch spec; return empty bytes if the engine has closed the socket.

        Return empty bytes as well after a long wait, unless this is the last idle shim and `is_fresh`: a shim that has
        served runs takes more memory, while a new one shares that of the starter.
        """
        while True:
            try:
                return bytes(self._buffer[: self.launches.recv_into(self._buffer)])
            except BlockingIOError:
                if not is_fresh or self._is_spare():
                    return b""

    def _is_spare(self) -> bool:
        """Return whether another shim is idle, too."""
        try:
            os.eventfd_read(self.idle)
        except BlockingIOError:
            return False
        spare = bool(self._any_idle.poll(0))
        os.eventfd_write(self.idle, 1)
        return spare


class Guard:
    """Kills processes that have lost both their shim and their lease. The kernel makes them children of the starter."""

    def __init__(self, lease_path: str) -> None:
        self._path, self._until = lease_path, 0.0
        self.shims: set[int] = set()
        if lease_path:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def reap(self) -> int:
        """Reap dead children; return how many shims were killed by a signal."""
        killed = 0
        with contextlib.suppress(ChildProcessError):
            while status := os.waitpid(-1, os.WNOHANG):
                if not status[0]:
                    break
                killed += status[0] in self.shims and os.WIFSIGNALED(status[1])
                self.shims.discard(status[0])
        return killed

    def check(self) -> None:
        """Kill orphans if the lease has ended. Leases never get shorter: the file is read after its last known end."""
        if not self._path or lease.now() < self._until:
            return
        self._until = lease.read(self._path)
        if lease.now() < self._until or not self._has_orphans():
            return
        everything = process_tree.list_processes()
        roots = [stat for stat in everything if stat.parent == os.getpid() and stat.pid not in self.shims]
        for stat in [*roots, *process_tree.descendants((stat.pid for stat in roots), everything)]:
            process_tree.signal_process(stat, signal.SIGKILL)

    def _has_orphans(self) -> bool:
        pid = os.getpid()
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return not self.shims.issuperset(map(int, file.read().split()))
        except OSError:  # a kernel without that file
            return True

    def outlive_engine(self) -> None:
        """Guard the runs until all have ended."""
        while self._path and _has_children():
            self.check()
            signal.sigtimedwait((signal.SIGCHLD,), lease.POLL_S)
            self.reap()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def main(control_fd: int, launches_fd: int, lease_path: str = "") -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for handle in (control_fd, launches_fd):
        os.set_inheritable(handle, False)
    os.umask(0o077)
    os.chdir("/")
    boot_id()
    idle_shims = IdleShims(socket.socket(fileno=launches_fd))
    gc.disable()
    gc.freeze()  # a collection would write to, and so copy, every page shared with the starter
    events = select.poll()
    events.register(control_fd, select.POLLIN)
    events.register(idle_shims.wanted, select.POLLIN)
    wanted, guard = 1, Guard(lease_path)
    while True:
        while wanted and (pid := _fork(idle_shims, control_fd)):
            guard.shims.add(pid)
            wanted -= 1
        ready = dict(events.poll(_FORK_RETRY_MS if wanted else 1000))
        if control_fd in ready:
            guard.outlive_engine()
            return
        if idle_shims.wanted in ready:
            os.eventfd_read(idle_shims.wanted)
            wanted = 1
        for _ in range(guard.reap()):
            idle_shims.count_killed()
            wanted += 1
        guard.check()


def _fork(idle_shims: IdleShims, control_fd: int) -> int:
    """Fork a shim; return its pid, or 0 if no process is available now."""
    try:
        pid = os.fork()
    except OSError:
        return 0
    if pid:
        return pid
    try:
        os.close(control_fd)
        _serve_runs(idle_shims)
    finally:
        os._exit(0)


def _serve_runs(idle_shims: IdleShims) -> None:
    """Serve runs as a shim, one at a time."""
    os.setsid()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in range(RUNS_PER_SHIM):
        if not idle_shims.enter():
            return
        raw = idle_shims.receive(is_fresh=not number)
        idle_shims.leave()
        if not raw or not _run_one(raw):
            return


def _run_one(raw: bytes) -> bool:
    spec = json.loads(raw)
    if "file" in spec:
        with open(spec["file"], "rb") as file:
            raw = file.read()
        os.unlink(spec["file"])
        spec = json.loads(raw)
    return Shim(spec, raw).run()
