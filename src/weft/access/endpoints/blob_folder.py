"""Files that submitters hand to a scheduler, in one private folder, each under the SHA-256 of its content."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.paths import make_private
from weft.errors import WeftError
from weft.inputs.atomic import write_all

if TYPE_CHECKING:
    from pathlib import Path

STALE_S: Final = 3600.0
"""The seconds for which an unused blob is kept."""
PRUNE_S: Final = 600.0
_NAME: Final = re.compile(r"[0-9a-f]{64}")


def is_blob_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def store_blob(folder: Path, name: str, content: bytes) -> None:
    """Write a blob under its name, the SHA-256 of the content. A blob that is there counts as new again."""
    path, partial = folder / name, folder / f"{secrets.token_hex(16)}.part"
    try:
        make_private(folder)
        if path.exists():
            os.utime(path)
            return
        try:
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                write_all(handle, content)
            finally:
                os.close(handle)
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise WeftError(f"cannot write to {folder}: {error.strerror}\n  free some space and try again") from None


def prune_blobs(folder: Path, used: Collection[str] | None) -> None:
    """Remove unfinished uploads, and blobs that no job uses. None: the used ones are not known. New blobs stay: they
    arrive before their jobs."""
    for entry in os.scandir(folder):
        idle = entry.name.endswith(".part") or (used is not None and entry.name not in used)
        if idle and time.time() - entry.stat().st_mtime > STALE_S:
            os.unlink(entry.path)
