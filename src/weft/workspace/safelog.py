"""Log files in folders that others can write to, such as /tmp: for their owner alone, through no link, over nobody's
file. Stands alone: what runs beside a task loads it, and little else.

The first line of a log says whose it is. A file with another first line is somebody else's.
"""

from __future__ import annotations

import os
import stat
import zlib

HEAD = "# log of "
TASKS = "train_logs"
_MOST_HEAD = 4096


def open_log(folder: str, name: str, owner: str) -> tuple[int, str]:
    """A log open for appending, and its path. Where that name is somebody else's, one with a mark of its own is taken.

    Raises OSError where none can be had.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    marked = f"{name.removesuffix('.log')}.{zlib.crc32(owner.encode(errors='replace')):08x}.log"
    for candidate in (name, marked):
        path = os.path.join(folder, candidate)
        handle = _open_own(path, owner)
        if handle is not None:
            return handle, path
    raise FileExistsError(17, "is somebody else's", os.path.join(folder, marked))


def path_of(folder: str, name: str, owner: str) -> str:
    """Where the log of this owner is, or would be."""
    marked = f"{name.removesuffix('.log')}.{zlib.crc32(owner.encode(errors='replace')):08x}.log"
    plain = os.path.join(folder, name)
    try:
        handle = os.open(plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return plain
    except OSError:
        return os.path.join(folder, marked)
    try:
        return plain if _is_own(handle, owner) else os.path.join(folder, marked)
    finally:
        os.close(handle)


def tasks_folder(parent: str) -> str:
    """Where the logs of tasks go: one's own folder, also where another user was there first."""
    plain = os.path.join(parent, TASKS)
    try:
        mine = os.lstat(plain).st_uid == os.getuid()
    except OSError:
        mine = True  # nobody's yet
    return plain if mine else f"{plain}-{os.getuid()}"


def head_of(owner: str) -> bytes:
    """The first line of a log, whatever the owner is called."""
    return f"{HEAD}{owner.encode('unicode_escape').decode()}\n".encode()[:_MOST_HEAD]


def _open_own(path: str, owner: str) -> int | None:
    """None: there is something at that path which is not this owner's."""
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        os.write(handle, head_of(owner))
        return handle
    try:
        handle = os.open(path, flags)
    except OSError:  # a link, a folder, a file of another user
        return None
    if _is_own(handle, owner):
        return handle
    os.close(handle)
    return None


def _is_own(handle: int, owner: str) -> bool:
    """A plain file of this user's, by no second name, that begins with this owner's line, or with nothing yet."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_nlink != 1:
        return False
    head = head_of(owner)
    return os.pread(handle, len(head), 0) == head
