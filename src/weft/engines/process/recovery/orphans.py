"""Processes that outlived their shim: found by what only their run's environment holds."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from weft.engines.process.shim.process_id import Identity, ProcStat, boot_id
from weft.engines.process.shim.process_tree import descendants, list_processes, signal_process

PATIENCE_S: Final = 10.0


def kill_orphans(marks: tuple[str, ...], leader: Identity | None, patience_s: float = PATIENCE_S) -> int:
    """Kill every process whose environment holds all `marks` (`NAME=value`), and all below it; how many there were.

    Gives up on those that do not die: a process in a driver cannot be helped from here.
    """
    killed: set[tuple[int, int]] = set()
    until = time.monotonic() + patience_s
    while True:
        found = _survivors(marks, leader)
        if not found or time.monotonic() > until:
            return len(killed)
        for stat in found:
            signal_process(stat, signal.SIGKILL)
            killed.add((stat.pid, stat.start))
        time.sleep(0.02)


def _survivors(marks: tuple[str, ...], leader: Identity | None) -> list[ProcStat]:
    everybody = list_processes()
    wanted = [mark.encode(errors="surrogateescape") for mark in marks]
    ours = [stat for stat in everybody if not stat.dead and (_is(stat, leader) or _holds(stat.pid, wanted))]
    return ours + descendants((stat.pid for stat in ours), everybody)


def _is(stat: ProcStat, who: Identity | None) -> bool:
    return who is not None and who == (boot_id(), stat.pid, stat.start)


def _holds(pid: int, marks: list[bytes]) -> bool:
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = set(file.read().split(b"\0"))
    except OSError:
        return False
    return all(mark in variables for mark in marks)
