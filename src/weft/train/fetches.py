"""Times of the fetches of a data loader, counted where they happen: in the workers of the loader, or in this process.

The time that a step waits for a batch says little if workers load ahead. The counters are in memory that forked workers
inherit; workers that are started otherwise find it by a variable.
"""

from __future__ import annotations

import mmap
import os
import time
from struct import Struct
from typing import NamedTuple

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Final

VARIABLE: Final = "WEFT_FETCH_COUNTERS"
PROCESSES: Final = 128
"""Processes that count separately. Two that share an entry may lose a count."""
ENTRY: Final = Struct("<Qdd")
"""Fetches, seconds, CPU seconds."""


class Fetches(NamedTuple):
    fetches: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0


class FetchCounters:
    """The counters of this process and of its loader workers."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def add(self, wall_s: float, cpu_s: float) -> None:
        at = os.getpid() % PROCESSES * ENTRY.size
        count, wall, cpu = ENTRY.unpack_from(self._page, at)
        ENTRY.pack_into(self._page, at, count + 1, wall + wall_s, cpu + cpu_s)

    def total(self, processes: Iterable[int]) -> Fetches:
        """Return the fetches of these processes."""
        places = {pid % PROCESSES for pid in processes}
        entries = [ENTRY.unpack_from(self._page, at * ENTRY.size) for at in places]
        return Fetches(*(sum(values) for values in zip(*entries, strict=True))) if entries else Fetches()

    def time(self, fetch: Any, *arguments: Any) -> Any:
        """Call `fetch`, and count it."""
        began, cpu_began = time.perf_counter(), time.thread_time()
        try:
            return fetch(*arguments)
        finally:
            self.add(time.perf_counter() - began, time.thread_time() - cpu_began)


def open_counters() -> FetchCounters:
    """Return the counters of the parent if this is a loader worker, or new ones."""
    size, path = PROCESSES * ENTRY.size, os.environ.get(VARIABLE, "")
    parent = f"/proc/{os.getppid()}/fd/"
    if path.startswith(parent):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            page = mmap.mmap(handle, size)
            os.close(handle)
            return FetchCounters(page)
        except (OSError, ValueError):
            pass  # the parent is no training process
    handle = os.memfd_create("weft-fetches", os.MFD_CLOEXEC)
    os.ftruncate(handle, size)
    os.environ[VARIABLE] = f"/proc/{os.getpid()}/fd/{handle}"
    return FetchCounters(mmap.mmap(handle, size))
