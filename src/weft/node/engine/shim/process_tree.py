"""Process trees: the descendants of a process, found by parent pids."""

from __future__ import annotations

import os
from collections.abc import Iterable

from weft.node.engine.shim.process_id import Identity, ProcStat, boot_id, read_stat, send_signal


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


def signal_descendants(root: int, *signals: int) -> int:
    """Signal every living descendant of a pid; return how many there were."""
    victims = descendants([root], list_processes())
    for stat in victims:
        signal_process(stat, *signals)
    return len(victims)


def signal_process(stat: ProcStat, *signals: int) -> bool:
    """Signal a process; return whether it was reached."""
    try:
        return send_signal(Identity(boot_id(), stat.pid, stat.start), *signals)
    except PermissionError:  # a set-uid process may belong to another user by now
        return False
