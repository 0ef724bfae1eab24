"""Log rotation: a log over its cap moves to `output.log.1`, so that it cannot fill the disk."""

from __future__ import annotations

import os
from typing import Final

from weft.engines.process.shim.run_files import LOG, OLD_LOG

COPY_CHUNK_BYTES: Final = 1 << 26


def rotate_if_over(cap_bytes: int) -> bool:
    """Copy and truncate the log in the current directory, if it is over its cap.

    The command keeps writing to the same file, which it opened for appending. Output between the copy and the
    truncation is lost.
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


def _copy(source: int, max_bytes: int) -> None:
    """Copy the last `max_bytes` bytes. On a full disk the copy is cut short: freeing space matters more."""
    target = os.open(OLD_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(source).st_size
        offset = max(0, end - max_bytes)
        while offset < end:
            sent = os.sendfile(target, source, offset, min(COPY_CHUNK_BYTES, end - offset))
            if not sent:
                break
            offset += sent
    except OSError:
        pass
    finally:
        os.close(target)
