"""Logs of runs: reading them in parts, and removing the folders of old runs."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

from weft.engines.process.shim import run_files
from weft.model import JobId

RUNS_KEPT: Final = 10
"""Older runs are removed: a job that is preempted or requeued all day would otherwise fill the disk."""
MAX_PART_BYTES: Final = 1 << 16
"""Largest part that one read returns."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log. The log may grow or be truncated between two parts."""

    text: bytes = b""
    offset: int = 0
    """Where the text begins; 0 instead of the requested offset if the log has been truncated since."""
    size: int = 0
    """Current size of the log."""
    missing: bool = False

    @property
    def next_offset(self) -> int:
        """Offset of the next part."""
        return self.offset + len(self.text)


MISSING: Final = LogPart(missing=True)


def log_path(jobs: str, job: JobId, run: int) -> str:
    return os.path.join(run_files.run_dir(jobs, job, run), run_files.LOG)


def read_part(path: str, offset: int = 0, *, lines: int = 0, max_bytes: int = MAX_PART_BYTES) -> LogPart:
    """Read from `offset`, or the last `lines` lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = tail_offset(file, size, lines) if lines else offset if offset <= size else 0
            file.seek(start)
            return LogPart(file.read(min(max(size - start, 0), max_bytes)), start, size)
    except OSError:
        return MISSING


def last_lines_offset(text: bytes, lines: int) -> int:
    """Return where the last `lines` lines of a text begin."""
    return tail_offset(io.BytesIO(text), len(text), lines)


def tail_offset(file: BinaryIO, end: int, lines: int) -> int:
    """Return where the last `lines` lines before `end` begin."""
    at, found = end, 0
    while at > 0:
        size = min(MAX_PART_BYTES, at)
        at -= size
        file.seek(at)
        block = file.read(size)
        newline = len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            if at + newline + 1 < end:  # a newline at the very end does not begin a line
                found += 1
                if found == lines:
                    return at + newline + 1
    return 0


def remove_old_runs(job_dir: str, run: int, keep: Callable[[str], bool] = lambda _: False) -> None:
    """Remove the folders of runs at least `RUNS_KEPT` before this one, except those that `keep` selects."""
    with suppress(OSError):
        for name in os.listdir(job_dir):
            if name.isdecimal() and int(name) <= run - RUNS_KEPT and not keep(f"{job_dir}/{name}"):
                shutil.rmtree(f"{job_dir}/{name}", ignore_errors=True)
