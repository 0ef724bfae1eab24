"""Which process is meant: a pid alone is given to somebody else once its process has gone."""

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
    """What the kernel says of a process; None: there is none."""
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
    # the name stands in brackets and may itself hold brackets and spaces
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return ProcStat(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X", b"x"))


def identify(pid: int) -> Identity | None:
    """Who has this pid now; a zombie still has it."""
    stat = read_stat(pid)
    return Identity(boot_id(), pid, stat.start) if stat else None


def is_alive(who: Identity) -> bool:
    stat = read_stat(who.pid) if who.boot == boot_id() else None
    return stat is not None and stat.start == who.start and not stat.dead


def open_pidfd(who: Identity) -> int | None:
    """A pidfd of exactly this process; None: it has gone. Raises OSError where descriptors have run out."""
    if who.boot != boot_id():
        return None
    try:
        handle = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return None
    # checked after opening: the pidfd stays with whoever had the pid at that moment
    if not is_alive(who):
        os.close(handle)
        return None
    return handle


def send(who: Identity, *signals: int) -> bool:
    """Signal exactly this process; False: it has gone, and nobody was signalled."""
    handle = open_pidfd(who)
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
