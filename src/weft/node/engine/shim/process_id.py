"""Process identity that survives pid reuse: boot, pid and start time."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import NamedTuple


class Identity(NamedTuple):
    """Boot, pid and start time (in clock ticks since that boot): no two processes share all three."""

    boot: str
    pid: int
    start: int


class ProcStat(NamedTuple):
    pid: int
    parent: int
    start: int
    dead: bool


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_stat(pid: int) -> ProcStat | None:
    """Return the kernel's record of a process, or None if there is no such process."""
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(handle, 4096)
    except OSError:
        return None
    finally:
        os.close(handle)
    # the name is in parentheses and may itself contain parentheses and spaces
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return ProcStat(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X", b"x"))


def identify(pid: int) -> Identity | None:
    """Return the identity of the process with this pid, zombies included, or None."""
    stat = read_stat(pid)
    return Identity(boot_id(), pid, stat.start) if stat else None


def is_alive(process: Identity) -> bool:
    stat = read_stat(process.pid) if process.boot == boot_id() else None
    return stat is not None and stat.start == process.start and not stat.dead


def open_pidfd(process: Identity) -> int | None:
    """Open a pidfd of exactly this process; return None if it has exited. Raise OSError if descriptors run out."""
    if process.boot != boot_id():
        return None
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # checked after opening, because the pidfd refers to the process that had the pid at that moment
    if not is_alive(process):
        os.close(handle)
        return None
    return handle


def send_signal(process: Identity, *signals: int) -> bool:
    """Signal exactly this process; return False, with no signal sent, if it has exited."""
    handle = open_pidfd(process)
    if handle is None:
        return False
    try:
        for number in signals:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
