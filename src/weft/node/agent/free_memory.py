"""Memory that a worker no longer uses: given back to the node, whose jobs need it."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

TRIM_PERIOD_S: Final = 30.0
"""Seconds between two times."""
_libc: Final = ctypes.CDLL(None)


def return_free_memory() -> None:
    """Collect garbage, and return free memory of the C library's allocator to the kernel, where it can do that."""
    gc.collect()
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
