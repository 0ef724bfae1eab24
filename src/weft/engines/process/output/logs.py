"""What a run wrote, read a part at a time: a log may grow, or be cut at its cap, between two of them."""

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
CHUNK: Final = 1 << 16
"""No part is longer."""


@dataclass(frozen=True, slots=True)
class LogPart:
    text: bytes = b""
    offset: int = 0
    """Where the text begins: not where it was asked for if the log has been cut since."""
    size: int = 0
    """How long the log is now."""
    missing: bool = False

    @property
    def following(self) -> int:
        """Where the next part begins."""
        return self.offset + len(self.text)


MISSING: Final = LogPart(missing=True)


def log_path(jobs: str, job: JobId, run: int) -> str:
    return os.path.join(run_files.run_dir(jobs, job, run), run_files.LOG)


def read_part(path: str, offset: int = 0, *, lines: int = 0, most: int = CHUNK) -> LogPart:
    """From `offset` on, or with `lines` from so many lines before the end."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = tail_start(file, size, lines) if lines else offset if offset <= size else 0
            file.seek(start)
            return LogPart(file.read(min(max(size - start, 0), most)), start, size)
    except OSError:
        return MISSING


def last_lines(text: bytes, lines: int) -> int:
    """Where the last lines of a text begin."""
    return tail_start(io.BytesIO(text), len(text), lines)


def tail_start(file: BinaryIO, end: int, lines: int) -> int:
    """Where the last lines before the end begin."""
    at, found = end, 0
    while at > 0:
        size = min(CHUNK, at)
        at -= size
        file.seek(at)
        block = file.read(size)
        newline = len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            if at + newline + 1 < end:  # the last line's own end does not begin another
                found += 1
                if found == lines:
                    return at + newline + 1
    return 0


def remove_old_runs(job_dir: str, run: int, stays: Callable[[str], bool] = lambda _: False) -> None:
    """The folders of runs long before this one, but for those of which `stays` says so."""
    with suppress(OSError):
        for name in os.listdir(job_dir):
            if name.isdecimal() and int(name) <= run - RUNS_KEPT and not stays(f"{job_dir}/{name}"):
                shutil.rmtree(f"{job_dir}/{name}", ignore_errors=True)
