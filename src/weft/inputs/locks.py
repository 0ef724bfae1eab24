"""Locks on files, each held by one process at a time. The system releases the lock of a process that dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Final

from weft.errors import Refused

POLL_S: Final = 0.05
MAX_PID_BYTES: Final = 20
StrPath = str | os.PathLike[str]


class Locked(Refused):
    """Another process holds the lock."""

    def __init__(self, what: str, hint: str, pid: int | None) -> None:
        holder = f" (pid {pid})" if pid is not None else ""
        super().__init__(f"{what}{holder}\n  {hint}" if hint else f"{what}{holder}")
        self.pid = pid


def acquire(path: StrPath, what: str, hint: str = "", *, wait_s: float = 0.0, write_pid: bool = True) -> int:
    """Return a descriptor that holds the lock until it is closed. Write the pid of this process into the file.

    Raise `Locked` with `what` and the holder's pid if another process still holds the lock after `wait_s`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + wait_s
    try:
        while not try_lock(fd):
            if time.monotonic() >= until:
                raise Locked(what, hint, _read_pid(fd))
            time.sleep(POLL_S)
        if write_pid:
            write_holder(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def locked(path: StrPath, what: str, hint: str = "", *, wait_s: float = 0.0, write_pid: bool = True) -> Iterator[int]:
    """Hold the lock inside the block; see `acquire`."""
    fd = acquire(path, what, hint, wait_s=wait_s, write_pid=write_pid)
    try:
        yield fd
    finally:
        os.close(fd)


def try_lock(fd: int) -> bool:
    """Lock an open file. Return False if another process holds the lock."""
    return _try_flock(fd, fcntl.LOCK_EX)


def write_holder(fd: int) -> None:
    """Write the pid of this process into a lock file. Never empty the file: to readers, empty means all jobs ended."""
    os.truncate(fd, os.pwrite(fd, str(os.getpid()).encode(), 0))


def is_locked(path: StrPath) -> bool:
    """Return whether a process holds the lock; False if there is no such file."""
    return _read_state(path)[0]


def holder(path: StrPath) -> int | None:
    """Return the pid of the process that holds the lock. The pid is valid as long as the process holds the lock."""
    return _read_state(path)[1]


def _read_state(path: StrPath) -> tuple[bool, int | None]:
    """Return whether the file is locked, and by which process if it wrote its pid."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False, None
    try:
        return (False, None) if _try_flock(fd, fcntl.LOCK_SH) else (True, _read_pid(fd))
    finally:
        os.close(fd)


def _try_flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid(fd: int) -> int | None:
    text = os.pread(fd, MAX_PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else None
