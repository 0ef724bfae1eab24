"""What a task writes and what is said of it, in the logs of its workspace. Stands alone: what runs beside a task loads
it, and little else.
"""

from __future__ import annotations

import os

from weft.workspace.task.log_files import open_log, open_task_log, stamped

CHUNK = 1 << 20


class MayFail:
    """As contextlib.suppress(OSError) has it, without loading that."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, OSError)


MAY_FAIL = MayFail()


class TaskLog:
    def __init__(self, task: str, owner: str, run_folder: str) -> None:
        self._task, self._owner, self._folder = task, owner, run_folder
        self._copied, self._source, self._copy, self._said = 0, -1, -1, -1

    def open(self, folder: str, scheduler_log: str) -> None:
        """In the folder for logs, if there is to be any log at all."""
        if not folder:
            return
        try:
            self._said, _ = open_log(folder, scheduler_log, self._owner)
            self._copy, _ = open_task_log(folder, f"{self._task}.log", f"{self._owner}#{self._task}")
        except OSError as error:
            self.warn(f"no log in {folder}: {error.strerror}")

    def say(self, text: str, *, loud: bool = False) -> None:
        """Into the scheduler's log; loudly, into the task's own too."""
        if loud:
            os.write(2, f"weft: {text}\n".encode(errors="backslashreplace"))
        if self._said >= 0:
            with MAY_FAIL:
                os.write(self._said, stamped(f"{self._task}: {text}"))

    def warn(self, text: str) -> None:
        """Said, and kept beside the run for `status`."""
        self.say(f"warning: {text}", loud=True)
        with MAY_FAIL, open(os.path.join(self._folder, "warning"), "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def copy(self) -> bool:
        """What the run wrote since the last look goes into the task's log; whether there was anything."""
        if self._copy < 0:
            return False
        before = self._copied
        try:
            if self._source < 0:
                self._source = os.open(os.path.join(self._folder, "output.log"), os.O_RDONLY | os.O_CLOEXEC)
            size = os.fstat(self._source).st_size
            if size < self._copied:  # cut at its cap
                self._copied = before = 0
            while self._copied < size:
                text = os.pread(self._source, CHUNK, self._copied)
                if not text:
                    break
                self._copied += os.write(self._copy, text)
        except OSError:
            return False
        return self._copied > before
