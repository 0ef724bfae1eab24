"""Logs of runs: reading them in parts, and removing the folders of old runs."""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

from weft.model import JobId
from weft.node.engine.shim import run_files
from weft.node.engine.shim.log_cap import first_kept, hold_for_reader
from weft.node.engine.users.file_rights import rights_of
from weft.node.engine.users.run_folder import account_of_file

RUNS_KEPT: Final = 10
"""Older runs are removed: a job that is preempted or requeued all day would otherwise fill the disk."""
MAX_PART_BYTES: Final = 1 << 16
"""Largest part that one read returns."""
LAG_BYTES: Final = 16 << 20
"""A reader this far behind the end asks the shim to keep what it has yet to read."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log. The log may grow between two parts, and lose its start."""

    text: bytes = b""
    offset: int = 0
    """Where the text begins: later than requested if the start was removed; 0 if the log has been truncated since."""
    size: int = 0
    """Current size of the log."""
    missing: bool = False
    older: str = ""
    """The file with the output before a truncation; only on a file system where the start cannot be removed."""

    @property
    def next_offset(self) -> int:
        """Offset of the next part."""
        return self.offset + len(self.text)


MISSING: Final = LogPart(missing=True)


def log_path(jobs: str, job: JobId, run: int, *, stderr: bool = False) -> str:
    return os.path.join(run_files.run_dir(jobs, job, run), run_files.ERROR_LOG if stderr else run_files.LOG)


def read_part(path: str, offset: int = 0, *, lines: int = 0, max_bytes: int = MAX_PART_BYTES) -> LogPart:
    """Read from `offset`, or the last `lines` lines."""
    if os.path.islink(path):
        return _read_own_file(path, offset, lines, max_bytes)
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = first_kept(file.fileno(), size)
            start = tail_offset(file, size, lines, begin) if lines else max(offset if offset <= size else 0, begin)
            file.seek(start)
            text = file.read(min(max(size - start, 0), max_bytes))
            lost = max(first_kept(file.fileno(), size) - start, 0)  # removed meanwhile, perhaps while it was read
            start += lost
            part = LogPart(text[lost:], start, size, older=_older(path, start))
    except OSError:
        return MISSING
    if size - part.next_offset > LAG_BYTES and max_bytes:
        hold_for_reader(os.path.join(os.path.dirname(path), run_files.LOG_READER), part.next_offset)
    return part


def _read_own_file(path: str, offset: int, lines: int, max_bytes: int) -> LogPart:
    """Read a user's own file, which may hold the output of earlier runs. Offsets count from the begin of this run."""
    try:
        with rights_of(account_of_file(path)):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):  # /dev/null, or what a user has put there meanwhile
                return LogPart()
            begin = run_files.read_begin(path)
            begin = begin if begin <= found.st_size else 0
            size = found.st_size - begin
            start = tail_offset(file, found.st_size, lines, begin) - begin if lines else offset if offset <= size else 0
            file.seek(begin + start)
            return LogPart(file.read(min(size - start, max_bytes)), start, size)
    except OSError:
        return MISSING


def _older(path: str, start: int) -> str:
    older = os.path.join(os.path.dirname(path), run_files.OLD_LOG)
    return older if not start and os.path.exists(older) else ""


def last_lines_offset(text: bytes, lines: int) -> int:
    """Return where the last `lines` lines of a text begin."""
    return tail_offset(io.BytesIO(text), len(text), lines)


def tail_offset(file: BinaryIO, end: int, lines: int, begin: int = 0) -> int:
    """Return where the last `lines` lines between `begin` and `end` begin."""
    at, found = end, 0
    while at > begin:
        size = min(MAX_PART_BYTES, at - begin)
        at -= size
        file.seek(at)
        block = file.read(size)
        newline = len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            if at + newline + 1 < end:  # a newline at the very end does not begin a line
                found += 1
                if found == lines:
                    return at + newline + 1
    return begin


def remove_old_runs(job_dir: str, run: int, keep: Callable[[str], bool] = lambda _: False) -> None:
    """Remove the folders of runs at least `RUNS_KEPT` before this one, except those that `keep` selects."""
    with suppress(OSError):
        for name in os.listdir(job_dir):
            if name.isdecimal() and int(name) <= run - RUNS_KEPT and not keep(f"{job_dir}/{name}"):
                shutil.rmtree(f"{job_dir}/{name}", ignore_errors=True)
