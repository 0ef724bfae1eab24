"""The lease: the time for which the runs of a node may continue without contact to the scheduler.

Every shim reads the lease file. The agent renews the file on contact. Times are on the boot clock, which includes
suspend and cannot be set back, so shims and the agent agree on them.
"""

from __future__ import annotations

import os
import time
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import boot_id

ENDED: Final = "lease-ended"
"""Exit reason of a run whose lease has expired."""
GRACE_S: Final = 5.0
"""Longest time between SIGTERM and SIGKILL for a run whose lease has expired."""
POLL_S: Final = 1.0
"""Interval at which a shim compares its lease with the clock. Within this time it notices that the machine slept."""


def now() -> float:
    """Return the time on the boot clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(path: str, until: float) -> None:
    """Let runs continue until this time."""
    content = run_files.to_json({"boot": boot_id(), "until": round(until, 3)})
    try:
        write_atomic(path, content)
    except OSError:
        _write_over(path, content)


def read(path: str) -> float:
    """Return when the lease ends; 0 if it was not renewed since the machine booted."""
    lease = run_files.read_object(path) or {}
    until = lease.get("until")
    return float(until) if lease.get("boot") == boot_id() and isinstance(until, int | float) else 0.0


def _write_over(path: str, content: bytes) -> None:
    """Overwrite in place: on a full disk an existing lease file already has its blocks."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(handle, content.ljust(os.fstat(handle).st_size), 0)
    finally:
        os.close(handle)


class RunLease:
    """The lease of one run, for its shim. Without a path the run needs none."""

    def __init__(self, path: str) -> None:
        self._path, self._until = path, 0.0

    def has_ended(self) -> bool:
        """Return whether the lease is over. Leases never get shorter: read the file only after its last known end."""
        if self._path and now() >= self._until:
            self._until = read(self._path)
        return bool(self._path) and now() >= self._until
