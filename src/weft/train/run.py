"""The run that this process belongs to, as its environment says, and the files through which it speaks."""

from __future__ import annotations

import os
import warnings

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LATEST = "latest.json"


class Run:
    """Empty strings where there is no run."""

    __slots__ = ("_done_by_itself", "checkpoints", "done_file", "job", "number", "preempt_file", "socket")

    def __init__(self, env: Mapping[str, str]) -> None:
        self.job = env.get("WEFT_JOB_ID", "")
        number = env.get("WEFT_RUN", "")
        self.number = int(number) if number.isdecimal() else 0
        self.socket = env.get("WEFT_SOCKET", "") if self.job and self.number else ""
        self.checkpoints = env.get("WEFT_CKPT_DIR", "")
        self.preempt_file = env.get("WEFT_PREEMPT_FILE", "")
        self.done_file = env.get("WEFT_DONE_FILE", "")
        self._done_by_itself = False

    # ---- the marker of completion

    def mark_done(self) -> None:
        self._done_by_itself = False
        _touch(self.done_file)

    def reached_its_last_step(self) -> None:
        """As good as done, until it does something else."""
        if self.done_file and not self._done_by_itself and not os.path.exists(self.done_file):
            self._done_by_itself = True
            _touch(self.done_file)

    def goes_on(self) -> None:
        """What the last step seemed to say was wrong; what `done` said stays."""
        if self._done_by_itself:
            self._done_by_itself = False
            _remove(self.done_file)

    # ---- the latest checkpoint

    def record(self, checkpoint: Mapping[str, Any]) -> None:
        """Whole or not at all: a run that is killed meanwhile leaves the one before."""
        import json

        path = f"{self.checkpoints}/{LATEST}"
        beside = f"{path}.{os.getpid()}"
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, json.dumps(checkpoint).encode("ascii"))
                os.fsync(handle)
            finally:
                os.close(handle)
            os.rename(beside, path)
        except OSError as error:
            _warn(f"could not record a checkpoint in {path}: {error.strerror}")

    def recorded(self) -> str | None:
        """The path of the latest checkpoint, if it is still there."""
        import json

        try:
            with open(f"{self.checkpoints}/{LATEST}", "rb") as file:
                found = json.load(file)
            path = found["path"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return path if isinstance(path, str) and os.path.exists(path) else None


def _touch(path: str) -> None:
    if not path:
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        _warn(f"could not create {path}: {error.strerror}")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        _warn(f"could not remove {path}: {error.strerror}")


def _warn(text: str) -> None:
    """In the log of the job, which goes on."""
    warnings.warn(f"weft {text}", RuntimeWarning, stacklevel=4)


_run: Run | None = None


def this_run() -> Run:
    """Looked up once: what a job does to its environment later does not matter."""
    global _run
    if _run is None:
        _run = Run(os.environ)
    return _run
