"""The cap of a log: its oldest part is removed in place, so that it cannot fill the disk and nothing else is lost.

The command appends to one file from its first byte to its last, without a process in between. Punching a hole frees the
blocks at the start of that file and copies nothing. Offsets stay valid, so readers lose nothing that is kept.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Final

BLOCK_BYTES: Final = 1 << 17
"""Holes end at a multiple of this: at least the block size of common file systems."""
COPY_CHUNK_BYTES: Final = 1 << 26
MAX_CATCH_UP: Final = 100
READER_HOLDS_S: Final = 5.0
READER_CAPS: Final = 8
"""A reader that lags keeps up to this many caps of a log."""
_KEEP_SIZE_PUNCH_HOLE: Final = 0x01 | 0x02
_OFFSET_DIGITS: Final = 20


def enforce_cap(log: str, older: str, reader: str, cap_bytes: int) -> None:
    """Remove the oldest part of a log that is over its cap: leave between one and two caps.

    File systems without holes get a copy in `older` and a truncation: output between the two is lost there.
    """
    try:
        if os.stat(log).st_size <= cap_bytes:
            return
        handle = os.open(log, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if _punch(handle, os.fstat(handle).st_size + BLOCK_BYTES, BLOCK_BYTES):  # past the end: changes nothing
            _remove_start(handle, reader, cap_bytes)
        else:
            copy_and_truncate(handle, older, cap_bytes)
    except OSError:
        return  # the next check tries again
    finally:
        os.close(handle)


def first_kept(handle: int, size: int) -> int:
    """Return the offset of the first byte that has not been removed. Moves the position of `handle`."""
    try:
        return os.lseek(handle, 0, os.SEEK_DATA)
    except OSError as error:
        return size if error.errno == errno.ENXIO else 0


def _remove_start(handle: int, reader: str, cap_bytes: int) -> None:
    size = os.fstat(handle).st_size
    begin = first_kept(handle, size)
    if size - begin <= 2 * cap_bytes:
        return
    end = size - cap_bytes
    held = held_offset(reader)
    if held is not None:
        room = os.fstatvfs(handle)
        max_kept = min(READER_CAPS * cap_bytes, room.f_bavail * room.f_frsize)
        end = max(min(end, held), size - max_kept)
    end -= end % BLOCK_BYTES
    if end > begin:
        _punch(handle, 0, end)


def _punch(handle: int, offset: int, length: int) -> bool:
    """Free a range of a file; return False if the file system cannot."""
    import ctypes  # few logs reach their cap

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        return False
    if not libc.fallocate(handle, _KEEP_SIZE_PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length)):
        return True
    number = ctypes.get_errno()
    if number in (errno.EOPNOTSUPP, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number))


def copy_and_truncate(source: int, older: str, max_bytes: int) -> None:
    """Copy the last `max_bytes` bytes to `older`, then what was written meanwhile, and truncate the file.

    On a full disk the copy is cut short: freeing space matters more.
    """
    target = os.open(older, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        offset = max(0, os.fstat(source).st_size - max_bytes)
        for _ in range(MAX_CATCH_UP):
            sent = os.sendfile(target, source, offset, COPY_CHUNK_BYTES)
            if not sent:
                break
            offset += sent
    except OSError:
        pass
    finally:
        os.close(target)
    os.ftruncate(source, 0)


def hold_for_reader(reader: str, offset: int) -> None:
    """Ask the shim to keep the log from `offset` on for a few seconds more. The slowest reader wins."""
    with contextlib.suppress(OSError):
        held = held_offset(reader, READER_HOLDS_S / 5)
        if held is not None and held < offset:
            return
        handle = os.open(reader, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(handle, b"%0*d" % (_OFFSET_DIGITS, offset), 0)
        finally:
            os.close(handle)


def held_offset(reader: str, max_age_s: float = READER_HOLDS_S) -> int | None:
    """Return the offset from which a reader wants the log, or None if no reader lags behind."""
    try:
        handle = os.open(reader, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if abs(time.time() - os.fstat(handle).st_mtime) > max_age_s:
            return None
        text = os.pread(handle, _OFFSET_DIGITS, 0)
    finally:
        os.close(handle)
    return int(text) if text.isdigit() else None
