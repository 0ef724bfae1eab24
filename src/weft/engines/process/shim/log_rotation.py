"""Keeps a log without end from filling the disk: what is over the cap moves to `output.log.1`."""

from __future__ import annotations

import os
from typing import Final

from weft.engines.process.shim.run_files import LOG, OLD_LOG

CHUNK: Final = 1 << 26


def rotate_when_over(cap_bytes: int) -> bool:
    """Copy and truncate the log in the current directory, if it is over its cap.

    The command keeps writing to the same file, which it opened for appending. What it writes between the copy and
    the truncation is lost.
    """
    try:
        if os.stat(LOG).st_size <= cap_bytes:
            return False
        source = os.open(LOG, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _copy(source, cap_bytes)
        os.ftruncate(source, 0)
    except OSError:
        return False
    finally:
        os.close(source)
    return True


def _copy(source: int, at_most: int) -> None:
    """The last `at_most` bytes. A disk that is full cuts the copy short: making room matters more."""
    target = os.open(OLD_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(source).st_size
        offset = max(0, end - at_most)
        while offset < end:
            sent = os.sendfile(target, source, offset, min(CHUNK, end - offset))
            if not sent:
                break
            offset += sent
    except OSError:
        pass
    finally:
        os.close(target)
