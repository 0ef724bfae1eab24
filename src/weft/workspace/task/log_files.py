"""Log files in folders that others can write to, such as /tmp: for their owner alone, through no link, over nobody's
file. Stands alone: what runs beside a task loads it, and little else.

The first line of a log says whose it is. A file with another first line is somebody else's.
"""

from __future__ import annotations

import os
import stat
import time
import zlib

HEAD = "# log of "
TASKS = "train_logs"
_MOST_HEAD = 4096


def open_log(folder: str, name: str, owner: str) -> tuple[int, str]:
    """A log open for appending, and its path. Where that name is somebody else's, one with a mark of its own is taken.

    Raises OSError where none can be had.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    names = _names(name, owner)
    for candidate in names:
        path = os.path.join(folder, candidate)
        handle = _open_own(path, owner)
        if handle is not None:
            return handle, path
    raise FileExistsError(17, "is somebody else's", os.path.join(folder, names[-1]))


def open_task_log(parent: str, name: str, owner: str) -> tuple[int, str]:
    """The same, in the folder for the logs of tasks."""
    folder = tasks_folder(parent)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not _is_ours(folder):  # a link of theirs would lead anywhere
        raise PermissionError(1, "is somebody else's", folder)
    return open_log(folder, name, owner)


def path_of(folder: str, name: str, owner: str) -> str:
    """Where the log of this owner is, or would be."""
    plain, marked = (os.path.join(folder, each) for each in _names(name, owner))
    try:
        handle = os.open(plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return plain
    except OSError:
        return marked
    try:
        return plain if _is_own(handle, owner) else marked
    finally:
        os.close(handle)


def tasks_folder(parent: str) -> str:
    """Where the logs of tasks go: one's own folder, also where another user was there first."""
    plain = os.path.join(parent, TASKS)
    return plain if _is_ours(plain) else f"{plain}-{os.getuid()}"


def stamped(text: str) -> bytes:
    """A line of the scheduler's log."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="backslashreplace")


def _names(name: str, owner: str) -> tuple[str, str]:
    """The name a log should have, and the one it has where that is taken."""
    return name, f"{name.removesuffix('.log')}.{zlib.crc32(owner.encode(errors='replace')):08x}.log"


def _is_ours(folder: str) -> bool:
    """Whether it is this user's, link or folder, or nobody's yet."""
    try:
        return os.lstat(folder).st_uid == os.getuid()
    except OSError:
        return True


def head_of(owner: str) -> bytes:
    """The first line of a log, whatever the owner is called."""
    return f"{HEAD}{owner.encode('unicode_escape').decode()}\n".encode()[:_MOST_HEAD]


def _open_own(path: str, owner: str) -> int | None:
    """None: there is something at that path which is not this owner's."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o600)
    except OSError:  # a link, a folder, a file of another user
        return None
    if not os.fstat(handle).st_size:
        _write_head(handle, owner)
    if _is_own(handle, owner):
        return handle
    os.close(handle)
    return None


def _write_head(handle: int, owner: str) -> None:
    """Whoever comes first; many tasks may start at once."""
    if not _is_plain(os.fstat(handle)):
        return
    import fcntl  # only the first run of a task needs it

    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        if not os.fstat(handle).st_size:
            os.write(handle, head_of(owner))
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _is_own(handle: int, owner: str) -> bool:
    """A plain file of this user's, by no second name, that begins with this owner's line, or with nothing yet."""
    found = os.fstat(handle)
    if not _is_plain(found):
        return False
    head = head_of(owner)
    return not found.st_size or os.pread(handle, len(head), 0) == head


def _is_plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and found.st_nlink == 1
