"""What a job can go on from, as its runs have recorded it: it outlives the run, and the scheduler."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from weft.local import files
from weft.model import JobId
from weft.server.reports import checkpoint_of

LATEST: Final = "latest.json"
"""As `weft.train` writes it."""
MOST_BYTES: Final = 65536


def last_checkpoint(jobs: Path, job: JobId) -> dict[str, Any] | None:
    """The last that any run of the job has recorded."""
    try:
        body = _read(jobs / job / files.CHECKPOINTS / LATEST)
        return checkpoint_of(json.loads(body))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _read(path: Path) -> bytes:
    """The job may have put anything there: nothing is waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{path} is no file")
        return os.read(handle, MOST_BYTES)
    finally:
        os.close(handle)
