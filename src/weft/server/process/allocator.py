"""The allocator of the C library: its use by a server, how much memory it keeps, and what it returns. Only glibc can.

Python's own allocator returns memory by the megabyte, and only where all of it is free. One object that stays keeps a
megabyte: after large requests, a server would keep a hundred.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

VARIABLE: Final = "PYTHONMALLOC"
M_MXFAST: Final = 1
"""The largest size of blocks that are not merged when they are freed. Merging a million of them later takes 0.3 s."""

_libc: Final = ctypes.CDLL(None)  # its functions release the interpreter's lock


def tune() -> None:
    """Set up the allocator of this process. Processes that it starts do not inherit the choice."""
    if os.environ.pop(VARIABLE, "") == "malloc" and hasattr(_libc, "malloc_trim"):
        _libc.mallopt(M_MXFAST, 0)


_FIELDS: Final = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in _FIELDS]  # it counts to 4 GB


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def free_mb() -> float:
    """Return how much memory is free, including pages that were returned; 0 where the allocator cannot tell."""
    for name, struct in (("mallinfo2", _Mallinfo2), ("mallinfo", _Mallinfo)):  # glibc before 2.33 has the second only
        if (info := getattr(_libc, name, None)) is not None:
            info.restype = struct
            return float(info().fordblks) / 2**20
    return 0.0


def trim() -> None:
    """Return all free pages."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
