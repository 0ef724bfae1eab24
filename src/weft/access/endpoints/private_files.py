"""Private files: readable by their owner alone, replaced atomically, never read through a link or from another user."""

from __future__ import annotations

import os
import stat
from typing import Final

from weft.errors import WeftError
from weft.inputs.atomic import StrPath, write_atomic

MAX_PRIVATE_BYTES: Final = 1 << 20


def read_private(path: StrPath) -> bytes:
    """Return the file's content.

    Raise FileNotFoundError if it does not exist, WeftError if other users could have read or written it.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WeftError(f"cannot read {path}: {error.strerror}\n  it must be a file that you own, not a link") from None
    with open(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise WeftError(f"{path} is not a file that you own\n  remove it")
        if found.st_mode & 0o077:
            raise WeftError(f"other users may read {path}\n  run chmod 600 on it, and replace the secrets in it")
        return file.read(MAX_PRIVATE_BYTES)


def write_private(path: StrPath, content: bytes) -> None:
    """Replace the file atomically; only its owner can read it."""
    write_atomic(path, content, durable=True)
