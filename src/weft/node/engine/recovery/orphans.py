"""Orphans: processes that outlive their shim, found by variables in their environment."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from weft.node.engine.shim.process_id import Identity, ProcStat, boot_id
from weft.node.engine.shim.process_tree import descendants, list_processes, signal_process

KILL_TIMEOUT_S: Final = 10.0


def kill_orphans(marks: tuple[str, ...], leader: Identity | None, timeout_s: float = KILL_TIMEOUT_S) -> int:
    """Kill every process whose environment has all `marks` (`NAME=value`), with its descendants; return the count.

    Give up after `timeout_s`: a process stuck in a driver cannot be killed.
    """
    killed: set[tuple[int, int]] = set()
    until = time.monotonic() + timeout_s
    while True:
        found = _find_orphans(marks, leader)
        if not found or time.monotonic() > until:
            return len(killed)
        for stat in found:
            signal_process(stat, signal.SIGKILL)
            killed.add((stat.pid, stat.start))
        time.sleep(0.02)


def _find_orphans(marks: tuple[str, ...], leader: Identity | None) -> list[ProcStat]:
    all_processes = list_processes()
    encoded = [mark.encode(errors="surrogateescape") for mark in marks]
    matching = [
        stat
        for stat in all_processes
        if not stat.dead and (_is_leader(stat, leader) or _has_variables(stat.pid, encoded))
    ]
    return matching + descendants((stat.pid for stat in matching), all_processes)


def _is_leader(stat: ProcStat, leader: Identity | None) -> bool:
    return leader is not None and leader == (boot_id(), stat.pid, stat.start)


def _has_variables(pid: int, marks: list[bytes]) -> bool:
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = set(file.read().split(b"\0"))
    except OSError:
        return False
    return all(mark in variables for mark in marks)
