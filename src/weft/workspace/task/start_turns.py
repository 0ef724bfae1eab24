"""Turns that space the starts of tasks on a GPU. The keeper of a task loads this module, so it imports little."""

from __future__ import annotations

import os
import time


def reserve_turn(path: str, delay_s: float) -> float:
    """Reserve the next turn and return the seconds until it. The file's modification time is that of the last turn."""
    import fcntl  # a task without a start delay does not need it

    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return 0.0
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        now, found = time.time(), os.fstat(handle)
        last = found.st_mtime if found.st_size else 0.0
        mine = max(now, last + delay_s)
        if mine - now > 1000 * delay_s:  # the clock was set back
            mine = now
        os.pwrite(handle, b".", 0)
        os.utime(handle, (mine, mine))
        return mine - now
    finally:
        os.close(handle)
