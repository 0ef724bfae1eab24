"""Whose turn it is on a GPU: starts are so far apart. Stands alone: what runs beside a task loads it."""

from __future__ import annotations

import os
import time


def turn(path: str, delay_s: float) -> float:
    """How long to wait for one's turn: turns are `delay_s` apart. The file's time is that of the latest turn."""
    import fcntl  # only those that are to wait need it

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
