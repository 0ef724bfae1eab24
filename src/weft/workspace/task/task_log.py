"""The logs of a task: a copy of its output, and its events in the scheduler's log.

The keeper of every task loads this module, so it imports little."""

from __future__ import annotations

import os

from weft.workspace.task.log_files import format_line, open_log, open_task_log, rename_full_log

COPY_BYTES = 1 << 20
"""Bytes that are copied at a time."""
MAX_LOG_BYTES = 512 << 20
"""A larger log of a task is renamed, and the next one begins."""


class IgnoreOSErrors:
    """Like contextlib.suppress(OSError), without importing contextlib."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, OSError)


IGNORE_OS_ERRORS = IgnoreOSErrors()


class TaskLog:
    def __init__(self, task: str, owner: str, run_folder: str, cap_bytes: int = MAX_LOG_BYTES) -> None:
        self._task, self._owner, self._folder, self._cap_bytes = task, owner, run_folder, cap_bytes
        self._copied, self._source, self._copy, self._scheduler_log = 0, -1, -1, -1
        self._parent = self._copy_path = ""

    def open(self, folder: str, scheduler_log: str) -> None:
        """Open both logs in a folder; do nothing if the workspace has no log folder."""
        if not folder:
            return
        try:
            self._scheduler_log, _ = open_log(folder, scheduler_log, self._owner)
            self._parent = folder
            self._open_copy()
        except OSError as error:
            self.warn(f"no log in {folder}: {error.strerror}")

    def _open_copy(self) -> None:
        self._copy, self._copy_path = open_task_log(self._parent, f"{self._task}.log", self._copy_owner)

    @property
    def _copy_owner(self) -> str:
        return f"{self._owner}#{self._task}"

    def write(self, text: str, *, to_task: bool = False) -> None:
        """Append an event to the scheduler's log; with `to_task`, also to the task's output."""
        if to_task:
            os.write(2, f"weft: {text}\n".encode(errors="backslashreplace"))
        if self._scheduler_log >= 0:
            with IGNORE_OS_ERRORS:
                os.write(self._scheduler_log, format_line(f"{self._task}: {text}"))

    def warn(self, text: str) -> None:
        """Log a warning, and store it in the folder of the run for `status`."""
        self.write(f"warning: {text}", to_task=True)
        with IGNORE_OS_ERRORS, open(os.path.join(self._folder, "warning"), "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def copy(self) -> bool:
        """Append new output of the run to the task's log. Return whether there was any."""
        if self._copy < 0:
            return False
        before = self._copied
        try:
            if self._source < 0:
                self._source = os.open(os.path.join(self._folder, "output.log"), os.O_RDONLY | os.O_CLOEXEC)
            size = os.fstat(self._source).st_size
            if size < self._copied:  # the output was truncated at its size limit
                self._copied = before = 0
            if size > self._copied:
                self._copied = os.lseek(self._source, self._copied, os.SEEK_DATA)  # the start may have been removed
            while self._copied < size:
                text = os.pread(self._source, COPY_BYTES, self._copied)
                if not text:
                    break
                self._copied += os.write(self._copy, text)
                self._rotate_if_over_cap()
        except OSError:
            return False
        return self._copied > before

    def _rotate_if_over_cap(self) -> None:
        """Rename a log over its cap to `NAME.log.1` and begin the next one."""
        if not self._cap_bytes or os.fstat(self._copy).st_size <= self._cap_bytes:
            return
        rename_full_log(self._copy_path, self._copy_owner)
        os.close(self._copy)
        self._copy = -1
        self._open_copy()
