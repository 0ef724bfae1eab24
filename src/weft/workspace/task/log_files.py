"""Private log files in folders that other users can write to, such as /tmp.

A log is never opened through a link, and never replaces another file. Its first line names its owner: a workspace or
one of its tasks. A file with another first line belongs to another owner.

The keeper of every task loads this module, so it imports little.
"""

from __future__ import annotations

import os
import stat
import time
import zlib

HEAD = "# log of "
TASKS_FOLDER = "train_logs"
MAX_HEAD_BYTES = 4096


def open_log(folder: str, name: str, owner: str) -> tuple[int, str]:
    """Open a log for appending. Return its handle and path.

    If another owner has the name, add a hash of this owner to it. Raise OSError if no log can be opened."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    names = _names(name, owner)
    for candidate in names:
        path = os.path.join(folder, candidate)
        handle = _open_log_of(path, owner)
        if handle is not None:
            return handle, path
    raise FileExistsError(17, "belongs to another owner", os.path.join(folder, names[-1]))


def open_task_log(parent: str, name: str, owner: str) -> tuple[int, str]:
    """Open a log in the folder for the logs of tasks."""
    folder = tasks_folder(parent)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not _belongs_to_user(folder):  # a link of another user could lead anywhere
        raise PermissionError(1, "belongs to another user", folder)
    return open_log(folder, name, owner)


def rename_full_log(path: str, owner: str) -> None:
    """Rename a log to `PATH.1`, in place of the older log of the same owner.

    If another owner has that name, add a hash of this owner to it."""
    plain, hashed = f"{path}.1", f"{path}.{_hash(owner)}.1"
    os.rename(path, plain if _is_free(plain, owner) else hashed)


def _is_free(path: str, owner: str) -> bool:
    """Return whether the path does not exist or is a log of this owner."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _is_log_of(handle, owner)
    finally:
        os.close(handle)


def find_log_path(folder: str, name: str, owner: str) -> str:
    """Return the path that `open_log` uses or would use."""
    plain, hashed = (os.path.join(folder, each) for each in _names(name, owner))
    return plain if _is_free(plain, owner) else hashed


def tasks_folder(parent: str) -> str:
    """Return the folder for the logs of tasks. If another user has the usual one, its name ends with this user's id."""
    plain = os.path.join(parent, TASKS_FOLDER)
    return plain if _belongs_to_user(plain) else f"{plain}-{os.getuid()}"


def format_line(text: str) -> bytes:
    """Return a line of the scheduler's log, with the time."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="backslashreplace")


def _names(name: str, owner: str) -> tuple[str, str]:
    """Return the usual name of a log, and the one to use if another owner has that."""
    return name, f"{name.removesuffix('.log')}.{_hash(owner)}.log"


def _hash(owner: str) -> str:
    return f"{zlib.crc32(owner.encode(errors='replace')):08x}"


def _belongs_to_user(folder: str) -> bool:
    """Return whether this user owns the folder or link, or it does not exist."""
    try:
        return os.lstat(folder).st_uid == os.getuid()
    except OSError:
        return True


def head_of(owner: str) -> bytes:
    """Return the first line of a log. The owner's name is escaped."""
    return f"{HEAD}{owner.encode('unicode_escape').decode()}\n".encode()[:MAX_HEAD_BYTES]


def _open_log_of(path: str, owner: str) -> int | None:
    """Open or create the log of this owner; return None if the path belongs to another owner."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o600)
    except OSError:  # a link, a folder, a file of another user
        return None
    if not os.fstat(handle).st_size:
        _write_head(handle, owner)
    if _is_log_of(handle, owner):
        return handle
    os.close(handle)
    return None


def _write_head(handle: int, owner: str) -> None:
    """Write the first line under a lock: many tasks may start at once."""
    if not _is_private_file(os.fstat(handle)):
        return
    import fcntl  # only the first run of a task needs it

    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        if not os.fstat(handle).st_size:
            os.write(handle, head_of(owner))
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _is_log_of(handle: int, owner: str) -> bool:
    """Return whether this is a regular file of this user with one name, empty or beginning with the owner's line."""
    found = os.fstat(handle)
    if not _is_private_file(found):
        return False
    head = head_of(owner)
    return not found.st_size or os.pread(handle, len(head), 0) == head


def _is_private_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and found.st_nlink == 1
