"""Returns freed memory to the operating system: after large requests the allocator keeps it until asked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

MIN_GROWTH_MB: Final = 24.0
"""Growth over the lowest size so far that makes the server return memory."""


def resident_mb() -> float:
    """Return the memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class MemoryReturn:
    """Gives free memory back whenever the process has grown."""

    def __init__(self) -> None:
        self._lowest_mb = resident_mb()

    async def check(self) -> None:
        now_mb = resident_mb()
        if now_mb > self._lowest_mb + MIN_GROWTH_MB:
            await asyncio.to_thread(_trim)
            now_mb = self._lowest_mb = resident_mb()
        self._lowest_mb = min(self._lowest_mb, now_mb)


def _trim() -> None:
    import ctypes  # most servers never need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
