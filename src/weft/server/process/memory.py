"""Returns freed memory to the operating system: after large requests the allocator keeps it until asked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

MIN_GROWTH_MB: Final = 24.0
"""A server that has grown by less since its start returns nothing: most servers never need to."""
MIN_FREED_MB: Final = 16.0
"""Memory that the allocator must have got back since the last return."""


def resident_mb() -> float:
    """Return the memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


START_MB: Final = resident_mb()
"""The size of the process before it reads its journal."""


class MemoryReturn:
    """Gives free memory back whenever enough of it was freed, or the process has grown."""

    def __init__(self) -> None:
        self._least_mb, self._least_free_mb = START_MB, 0.0
        """The least size, and the least free memory of the allocator, since the last return. What was returned still
        counts as free; it may have been used and freed since then."""

    async def check(self) -> None:
        if resident_mb() < START_MB + MIN_GROWTH_MB:
            return
        from weft.server.process import allocator  # ctypes takes memory, too

        before_mb, free_mb = resident_mb(), await asyncio.to_thread(allocator.free_mb)
        self._least_mb, self._least_free_mb = min(self._least_mb, before_mb), min(self._least_free_mb, free_mb)
        if free_mb > self._least_free_mb + MIN_FREED_MB or before_mb > self._least_mb + MIN_FREED_MB:
            await asyncio.to_thread(allocator.trim)
            self._least_mb = resident_mb()
            # if much went back, memory is being freed at this moment: try again next time
            self._least_free_mb = free_mb if before_mb - self._least_mb < MIN_FREED_MB else 0.0
