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


class MemoryReturn:
    """Gives free memory back whenever enough of it was freed."""

    def __init__(self) -> None:
        self._start_mb = resident_mb()
        self._least_free_mb = 0.0
        """The least free memory of the allocator since the last return. What was returned still counts as free."""

    async def check(self) -> None:
        if resident_mb() < self._start_mb + MIN_GROWTH_MB:
            return
        from weft.server.process import allocator  # ctypes takes memory, too

        free_mb = await asyncio.to_thread(allocator.free_mb)
        self._least_free_mb = min(self._least_free_mb, free_mb)
        if free_mb > self._least_free_mb + MIN_FREED_MB:
            before_mb = resident_mb()
            await asyncio.to_thread(allocator.trim)
            # if much went back, memory is being freed at this moment: try again next time
            self._least_free_mb = free_mb if before_mb - resident_mb() < MIN_FREED_MB else 0.0
