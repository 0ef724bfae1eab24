"""Atomic replacement of files: readers see the whole old content or the whole new content."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

StrPath = str | os.PathLike[str]


def write_atomic(path: StrPath, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace the file with this content. If `durable`, the new content survives a power cut once this returns.

    A link at `path` is replaced, not followed. The umask applies to `mode`.
    """
    with replacement(path, mode=mode, durable=durable) as temporary, open(temporary, "wb", buffering=0) as file:
        write_all(file.fileno(), content)


@contextlib.contextmanager
def replacement(path: StrPath, *, mode: int = 0o600, durable: bool = False) -> Iterator[str]:
    """Yield the path of an empty file in the same folder. It replaces the file at `path` unless the block raises."""
    folder, name = os.path.split(os.fspath(path))
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode))
    try:
        yield temporary
        if durable:
            _sync(temporary, os.O_RDONLY)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(path)


def sync_folder(path: StrPath) -> None:
    """Make a new name in the folder of `path` survive a power cut."""
    _sync(os.path.dirname(os.fspath(path)) or os.curdir, os.O_RDONLY | os.O_DIRECTORY)


def write_all(fd: int, content: bytes) -> None:
    """Write every byte: a single `os.write` may write only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync(path: str, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
