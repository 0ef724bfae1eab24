"""Files for their owner alone: created so, replaced whole, and never read through a link or from somebody else."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from weft.errors import WeftError

MOST_BYTES: Final = 1 << 20


def read_private(path: Path) -> bytes:
    """Raises FileNotFoundError where there is none, WeftError where others could have read or written it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WeftError(f"{path} cannot be read: {error.strerror}\n  it must be a file of yours, not a link") from None
    with open(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise WeftError(f"{path} is not a file of yours\n  remove it")
        if found.st_mode & 0o077:
            raise WeftError(f"others may read {path}\n  chmod 600 it; if it was so for long, ask for a new token")
        return file.read(MOST_BYTES)


def write_private(path: Path, content: bytes) -> None:
    """Nobody ever sees half of it, nor may anybody else read it."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(number)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
