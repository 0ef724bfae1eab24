"""What the journals on disk share: private files, explained errors, torn bytes kept aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import JournalError


def open_private(path: Path, flags: int) -> int:
    """A descriptor of `path`; a file made by this is its owner's alone from its first moment."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sync_folder(path: Path) -> None:
    """Make a new name in the folder of `path` survive a power cut."""
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def keep_torn(path: Path, torn: bytes) -> str:
    """Keep bytes that are about to be cut off `path` in a file beside it; the name of that file."""
    beside = path.with_name(f"{path.name}.torn")
    fd = open_private(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
    try:
        write_all(fd, torn)
        os.fsync(fd)
    finally:
        os.close(fd)
    return beside.name


def write_all(fd: int, content: bytes) -> None:
    """Write every byte: a single `os.write` may stop half way."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


@contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn what the system says about `path` into a JournalError that says what to do."""
    try:
        yield
    except FileNotFoundError:
        missing = path if path.parent.is_dir() else path.parent
        raise JournalError(f"cannot {doing} {path}: {missing} does not exist") from None
    except OSError as error:
        raise JournalError(f"cannot {doing} {path}: {error.strerror or error}") from None
