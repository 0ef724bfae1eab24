"""The processes of a run, found by who is whose parent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from weft.engines.process.shim.process_id import Identity, ProcStat, boot_id, read_stat, send

K = TypeVar("K")


def processes() -> list[ProcStat]:
    """Every process that can be seen, as of about now."""
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [stat for stat in found if stat is not None]


def below(roots: Iterable[int], all_of_them: Iterable[ProcStat]) -> list[ProcStat]:
    """The living descendants of these pids, parents before children, the roots themselves left out."""
    children: dict[int, list[ProcStat]] = {}
    for stat in all_of_them:
        children.setdefault(stat.parent, []).append(stat)
    found: list[ProcStat] = []
    seen = set(roots)
    todo = list(seen)
    while todo:
        for stat in children.get(todo.pop(), ()):
            if stat.pid not in seen:
                seen.add(stat.pid)
                todo.append(stat.pid)
                found.append(stat)
    return [stat for stat in found if not stat.dead]


def trees(roots: Mapping[K, int]) -> dict[K, frozenset[int]]:
    """The living descendants of each of these pids, as of one moment."""
    everybody = processes()
    return {key: frozenset(stat.pid for stat in below([pid], everybody)) for key, pid in roots.items()}


def signal_descendants(root: int, *signals: int) -> int:
    """Signal every living descendant of a pid; how many there were."""
    victims = below([root], processes())
    for stat in victims:
        signal_process(stat, *signals)
    return len(victims)


def signal_process(stat: ProcStat, *signals: int) -> None:
    # one that became somebody else's (set-uid) is not ours to signal
    with contextlib.suppress(PermissionError):
        send(Identity(boot_id(), stat.pid, stat.start), *signals)
