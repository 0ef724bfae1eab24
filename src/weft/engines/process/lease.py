"""How long the runs of a node may go on without word from the scheduler: one small file that every shim reads.

Whoever hears from the scheduler writes it anew. It counts on the clock of this boot, which goes on while the machine
sleeps, so shims and the agent mean the same moment, and nobody can set it back.
"""

from __future__ import annotations

import os
import time
from typing import Final

from weft.engines.process.shim import run_files
from weft.engines.process.shim.process_id import boot_id

ENDED: Final = "lease-ended"
"""Why a run was ended whose lease had run out."""
GRACE_S: Final = 5.0
"""What such a run gets between SIGTERM and SIGKILL, however long its own grace is."""
LOOK_S: Final = 1.0
"""How often a shim compares its lease with the clock: a machine that slept is noticed so soon."""


def now() -> float:
    """On the clock that leases count by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(path: str, until: float) -> None:
    """Runs may go on until then."""
    content = run_files.to_json({"boot": boot_id(), "until": round(until, 3)})
    try:
        run_files.write_atomic(path, content)
    except OSError:
        _write_over(path, content)


def read(path: str) -> float:
    """Until when; 0 where nobody has said so since this machine was started."""
    lease = run_files.read_object(path) or {}
    until = lease.get("until")
    return float(until) if lease.get("boot") == boot_id() and isinstance(until, int | float) else 0.0


def _write_over(path: str, content: bytes) -> None:
    """On a full disk: a lease that was written before has its room already."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(handle, content.ljust(os.fstat(handle).st_size), 0)
    finally:
        os.close(handle)
