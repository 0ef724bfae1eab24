"""Locks on GPUs that several schedulers of one machine share: one file per GPU, in a folder that all users can write.

The shim of a run holds the locks of its GPUs, and the command of the run inherits them. So the kernel keeps a lock for
as long as one of the two lives, whatever happens to the scheduler. Each scheduler locks its own byte of a file: runs of
one scheduler share a GPU, and runs of two schedulers never do. Only the standard library is imported: shims are small.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

GPU_TAKEN: Final = "gpu-taken"
"""The exit reason of a run whose GPU another scheduler holds."""
_GUARD_BYTE: Final = 0
"""Locked for the moment in which a lock is checked and taken."""
_FIRST_KEY: Final = 1 << 20
_FOLDER_BITS: Final = 24
_END_OF_FILE: Final = 0
_GUARD_TIMEOUT_S: Final = 2.0
_GUARD_POLL_S: Final = 0.002
_RECORD_BYTES: Final = 512
_MAX_NAME_CHARS: Final = 64
_FLOCK: Final = struct.Struct("@hhqqi4x")


class Holder(NamedTuple):
    """The scheduler that holds a GPU, and the run that took it last."""

    key: int
    name: str = ""
    """The name of the run's job; empty: unknown."""
    since: float | None = None

    @property
    def uid(self) -> int:
        return self.key >> _FOLDER_BITS


class GpuTaken(Exception):
    """A GPU cannot be locked: another scheduler holds it, or the file is unusable."""


def scheduler_key(uid: int, folder: str) -> int:
    """Return the number by which a scheduler locks GPUs, from its user and its folder."""
    return uid << _FOLDER_BITS | zlib.crc32(folder.encode(errors="surrogateescape")) & (1 << _FOLDER_BITS) - 1


def lock_gpus(paths: Sequence[str], key: int, name: str) -> list[int]:
    """Lock these GPUs, all or none, and return the descriptors that hold the locks. Raise GpuTaken."""
    held: list[int] = []
    try:
        for path in sorted(paths):  # one order for all: of two runs that want the same GPUs, one gets them
            held.append(_lock(path, key, name))
    except (OSError, GpuTaken) as error:
        for handle in held:
            os.close(handle)
        if isinstance(error, OSError):
            raise GpuTaken(f"cannot lock {path!r}: {error.strerror}") from None
        raise
    return held


def find_other_holder(path: str, key: int) -> Holder | None:
    """Return the other scheduler that holds a GPU, if one does. Raise OSError if the file is unusable."""
    handle = open_lock(path)
    try:
        return _other_holder(handle, key)
    finally:
        os.close(handle)


def open_lock(path: str) -> int:
    """Open the file of a GPU, and create it for all who may write in its folder if it is missing."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        # never O_CREAT on a file that exists: the kernel may refuse that for files of others in a sticky folder
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            os.fchmod(handle, stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) & 0o666)
            return handle
        handle = os.open(path, flags)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not an ordinary file with one name")
    return handle


def describe(holder: Holder) -> str:
    """Say which user holds a GPU, with which job and since when."""
    job = f" with job {holder.name!r}" if holder.name else ""
    since = time.strftime(" since %Y-%m-%d %H:%M", time.localtime(holder.since)) if holder.since is not None else ""
    return f"held by {_user_name(holder.uid)}{job}{since}"


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"user {uid}"


def _lock(path: str, key: int, name: str) -> int:
    handle = open_lock(path)
    try:
        with _guarded(handle):
            now = os.stat(path)
            if (now.st_dev, now.st_ino) != ((mine := os.fstat(handle)).st_dev, mine.st_ino):
                raise GpuTaken(f"cannot lock {path!r}: it was replaced just now")
            if (other := _other_holder(handle, key)) is not None:
                raise GpuTaken(f"GPU {_gpu_name(path)} is {describe(other)}")
            if not _set_lock(handle, fcntl.F_RDLCK, _FIRST_KEY + key, 1):
                raise GpuTaken(f"cannot lock {path!r}: another process locks the whole file")
            record = {"key": key, "name": name[:_MAX_NAME_CHARS], "since": time.time()}
            os.pwrite(handle, json.dumps(record).encode().ljust(_RECORD_BYTES), 0)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _gpu_name(path: str) -> str:
    return os.path.basename(path).removeprefix("gpu-").removesuffix(".lock")


@contextlib.contextmanager
def _guarded(handle: int) -> Iterator[None]:
    until = time.monotonic() + _GUARD_TIMEOUT_S
    while not _set_lock(handle, fcntl.F_WRLCK, _GUARD_BYTE, 1):
        if time.monotonic() >= until:
            raise GpuTaken("another scheduler takes the GPU, and does not finish")
        time.sleep(_GUARD_POLL_S)
    try:
        yield
    finally:
        _set_lock(handle, fcntl.F_UNLCK, _GUARD_BYTE, 1)


def _other_holder(handle: int, key: int) -> Holder | None:
    """Return the first other scheduler that holds a lock on the file."""
    mine = _FIRST_KEY + key
    for start, length in ((_FIRST_KEY, mine - _FIRST_KEY), (mine + 1, _END_OF_FILE)):
        if length or start > mine:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            kind, _, found, _, _ = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_OFD_GETLK, asked))
            if kind != fcntl.F_UNLCK:
                return _with_record(handle, Holder(found - _FIRST_KEY))
    return None


def _with_record(handle: int, holder: Holder) -> Holder:
    """Add what the holder wrote about itself. Anyone can write there: trust nothing but the lock."""
    try:
        record: Any = json.loads(os.pread(handle, _RECORD_BYTES, 0))
        name, since = str(record["name"]), float(record["since"])
        known = record["key"] == holder.key and 0 <= since < 1 << 40
    except (ValueError, KeyError, TypeError):
        return holder
    if not known:
        return holder
    return Holder(holder.key, "".join(filter(str.isprintable, name))[:_MAX_NAME_CHARS], since)


def _set_lock(handle: int, kind: int, start: int, length: int) -> bool:
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
    except (BlockingIOError, PermissionError):  # POSIX allows either for a lock that is held
        return False
    return True
