"""The run to which this process belongs, read from its environment, and the files that the run writes."""

from __future__ import annotations

import os
import warnings

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LATEST = "latest.json"
UNSENT = "unsent.json"
"""The last report of a run that ended while the scheduler was away."""


class Run:
    """The run of this process. Without a run, its fields are empty."""

    __slots__ = ("_done_by_step", "checkpoints", "done_file", "job", "number", "preempt_file", "socket")

    def __init__(self, env: Mapping[str, str]) -> None:
        self.job = env.get("WEFT_JOB_ID", "")
        number = env.get("WEFT_RUN", "")
        self.number = int(number) if number.isdecimal() else 0
        self.socket = env.get("WEFT_SOCKET", "") if self.job and self.number else ""
        self.checkpoints = env.get("WEFT_CKPT_DIR", "")
        self.preempt_file = env.get("WEFT_PREEMPT_FILE", "")
        self.done_file = env.get("WEFT_DONE_FILE", "")
        self._done_by_step = False

    # ---- the completion marker

    def mark_done(self) -> None:
        self._done_by_step = False
        _touch(self.done_file)

    def mark_last_step(self) -> None:
        """Mark the job as done after its last step, until it continues."""
        if self.done_file and not self._done_by_step and not os.path.exists(self.done_file):
            self._done_by_step = True
            _touch(self.done_file)

    def clear_last_step(self) -> None:
        """Remove the mark of `mark_last_step`: the job continues. Keep the mark of `mark_done`."""
        if self._done_by_step:
            self._done_by_step = False
            _remove(self.done_file)

    # ---- the latest checkpoint

    def record_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Replace the latest checkpoint atomically: a run that is killed during the write leaves the previous one."""
        path = f"{self.checkpoints}/{LATEST}"
        try:
            _replace_file(path, checkpoint)
        except OSError as error:
            _warn(f"could not record a checkpoint in {path}: {error.strerror}")

    def leave_report(self, report: Mapping[str, Any]) -> None:
        """Keep the last report for a scheduler that is away now."""
        if self.checkpoints:
            try:
                _replace_file(f"{self.checkpoints}/{UNSENT}", report)
            except OSError:  # the run has ended: nothing else can be done about it
                return

    def latest_checkpoint(self) -> str | None:
        """Return the path of the latest checkpoint; None if it does not exist."""
        import json

        try:
            with open(f"{self.checkpoints}/{LATEST}", "rb") as file:
                found = json.load(file)
            path = found["path"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return path if isinstance(path, str) and os.path.exists(path) else None


def _replace_file(path: str, value: Mapping[str, Any]) -> None:
    import json

    partial = f"{path}.{os.getpid()}"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json.dumps(value).encode("ascii"))
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(partial, path)


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
    """Warn in the job's log; the job continues."""
    warnings.warn(f"weft {text}", RuntimeWarning, stacklevel=4)


_run: Run | None = None


def this_run() -> Run:
    """Return the run of this process. Read the environment once, before the job may change it."""
    global _run
    if _run is None:
        _run = Run(os.environ)
    return _run
