"""Files that `weft.train` leaves in the folder of a job: its latest checkpoint, and a report that had no receiver."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from weft.model import JobId
from weft.node.engine.shim import run_files

MAX_BYTES: Final = 65536


def unsent_report(jobs: Path, job: JobId, run: int) -> dict[str, Any] | None:
    """Return the last report of a run that ended while its scheduler or worker was away; None: it left none."""
    try:
        body = json.loads(read_left(jobs / job / run_files.CHECKPOINTS / run_files.UNSENT))
    except (OSError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and (body.get("job"), body.get("run")) == (job, run) else None


def is_later(jobs: Path, job: JobId, than: float) -> bool:
    """Return whether the unsent report of a job was left after this time."""
    try:
        return (jobs / job / run_files.CHECKPOINTS / run_files.UNSENT).stat(follow_symlinks=False).st_mtime > than
    except OSError:
        return False


def read_left(path: Path) -> bytes:
    """Read a regular file without blocking: a job may have put anything there."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{path} is no file")
        return os.read(handle, MAX_BYTES)
    finally:
        os.close(handle)
