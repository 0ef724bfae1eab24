"""File helpers of journals on disk: private files, errors with a path, saved torn bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import JournalError
from weft.inputs.atomic import write_all


def open_private(path: Path, flags: int) -> int:
    """Open `path`; a new file is readable by its owner alone from the start."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def save_torn(path: Path, torn: bytes) -> str:
    """Append bytes that are about to be cut off `path` to a file next to it, and return that file's name."""
    saved = path.with_name(f"{path.name}.torn")
    fd = open_private(saved, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
    try:
        write_all(fd, torn)
        os.fsync(fd)
    finally:
        os.close(fd)
    return saved.name


@contextmanager
def explain_errors(path: Path, action: str) -> Iterator[None]:
    """Turn an OSError about `path` into a JournalError that names the path and the action."""
    try:
        yield
    except FileNotFoundError:
        missing = path if path.parent.is_dir() else path.parent
        raise JournalError(f"cannot {action} {path}: {missing} does not exist") from None
    except OSError as error:
        raise JournalError(f"cannot {action} {path}: {error.strerror or error}") from None
