"""Process trees: the descendants of a process, found by parent pids."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from weft.engines.process.shim.process_id import Identity, ProcStat, boot_id, read_stat, send_signal

K = TypeVar("K")


def list_processes() -> list[ProcStat]:
    """Return every visible process."""
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [stat for stat in found if stat is not None]


def descendants(roots: Iterable[int], candidates: Iterable[ProcStat]) -> list[ProcStat]:
    """Return the living descendants of these pids, parents before children, without the roots."""
    children: dict[int, list[ProcStat]] = {}
    for stat in candidates:
        children.setdefault(stat.parent, []).append(stat)
    found: list[ProcStat] = []
    seen = set(roots)
    queue = list(seen)
    while queue:
        for stat in children.get(queue.pop(), ()):
            if stat.pid not in seen:
                seen.add(stat.pid)
                queue.append(stat.pid)
                found.append(stat)
    return [stat for stat in found if not stat.dead]


def descendant_pids(roots: Mapping[K, int]) -> dict[K, frozenset[int]]:
    """Return the pids of the living descendants of each root, from one reading of /proc."""
    all_processes = list_processes()
    return {key: frozenset(stat.pid for stat in descendants([pid], all_processes)) for key, pid in roots.items()}


def signal_descendants(root: int, *signals: int) -> int:
    """Signal every living descendant of a pid; return how many there were."""
    victims = descendants([root], list_processes())
    for stat in victims:
        signal_process(stat, *signals)
    return len(victims)


def signal_process(stat: ProcStat, *signals: int) -> None:
    # a set-uid process may belong to another user by now
    with contextlib.suppress(PermissionError):
        send_signal(Identity(boot_id(), stat.pid, stat.start), *signals)
