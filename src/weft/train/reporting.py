"""Progress reports of a job."""

from __future__ import annotations

import os
from _thread import RLock

from weft.train.run import Run, this_run
from weft.train.sender import Sender

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Reporter:
    """Reports the progress of one run; does nothing in a process that belongs to no run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._sender: Sender | None = None
        self._total: Any = None
        self._ended = False
        if run.socket:
            import atexit

            self._sender = Sender(run.job, run.number, run.socket)
            atexit.register(self._flush_at_exit)

    @property
    def step(self) -> Any:
        return self._sender.step if self._sender else None

    def update(self, step: Any, total: Any, metrics: dict[str, Any]) -> None:
        if self._sender is None:
            return
        self._sender.update(step, total, metrics)
        if total is not None:
            self._total = total
        if self._total is not None and step >= self._total:
            self._ended = True
            self._run.mark_last_step()
            self._sender.flush()
        elif self._ended:
            self._ended = False
            self._run.clear_last_step()

    def update_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self._sender is not None:
            self._sender.update_checkpoint(checkpoint)

    def update_stages(self, summary: Callable[[], dict[str, Any]]) -> None:
        """Report the times of stages: what `summary` returns when the next report is sent."""
        if self._sender is not None:
            self._sender.update_stages(summary)

    def flush(self) -> None:
        if self._sender is not None:
            self._sender.flush()

    def _flush_at_exit(self) -> None:
        """Send the last values; if the scheduler is away, leave them in a file where the next one reads them."""
        if self._sender is not None and not self._sender.flush():
            self._run.leave_report(self._sender.body())


_reporter: Reporter | None = None
_silent = Reporter(Run({}))
_opening, _is_opening = RLock(), False


def reporter() -> Reporter:
    global _reporter, _is_opening
    with _opening:
        if _reporter is None:
            if _is_opening:  # a signal handler reports while the reporter is being created
                return _silent
            _is_opening = True
            try:
                _reporter = Reporter(this_run())
            finally:
                _is_opening = False
        return _reporter


def _reset_after_fork() -> None:
    """Create a new reporter on demand in a child process, which does not have its parent's threads."""
    global _reporter, _opening, _is_opening
    _reporter, _opening, _is_opening = None, RLock(), False


os.register_at_fork(after_in_child=_reset_after_fork)


def progress(step: int, total: int | None = None, **metrics: float) -> None:
    """Report the steps done, the total steps of the job, and metrics such as the loss.

    Call it in every step: it is cheap, and sends the latest values a few times per second.
    """
    (_reporter or reporter()).update(step, total, metrics)
