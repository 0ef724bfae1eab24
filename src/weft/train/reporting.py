"""How far the job is."""

from __future__ import annotations

import os
from _thread import RLock

from weft.train.run import Run, this_run
from weft.train.sender import Sender

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    from typing import Any


class Reporter:
    """Of one run; in a process that belongs to none it does nothing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._sender: Sender | None = None
        self._total: Any = None
        self._ended = False
        if run.socket:
            import atexit

            self._sender = Sender(run.job, run.number, run.socket)
            atexit.register(self._sender.flush)

    @property
    def step(self) -> Any:
        return self._sender.step if self._sender else None

    def note(self, step: Any, total: Any, metrics: dict[str, Any]) -> None:
        if self._sender is None:
            return
        self._sender.note(step, total, metrics)
        if total is not None:
            self._total = total
        if self._total is not None and step >= self._total:
            self._ended = True
            self._run.reached_its_last_step()
            self._sender.flush()
        elif self._ended:
            self._ended = False
            self._run.goes_on()

    def note_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self._sender is not None:
            self._sender.note_checkpoint(checkpoint)

    def flush(self) -> None:
        if self._sender is not None:
            self._sender.flush()


_reporter: Reporter | None = None
_silent = Reporter(Run({}))
_opening, _is_opening = RLock(), False


def reporter() -> Reporter:
    global _reporter, _is_opening
    with _opening:
        if _reporter is None:
            if _is_opening:  # a signal handler reports while it is being made
                return _silent
            _is_opening = True
            try:
                _reporter = Reporter(this_run())
            finally:
                _is_opening = False
        return _reporter


def _forked() -> None:
    """A child has no thread of its parent's: it begins anew, if it has something to say."""
    global _reporter, _opening, _is_opening
    _reporter, _opening, _is_opening = None, RLock(), False


os.register_at_fork(after_in_child=_forked)


def progress(step: int, total: int | None = None, **metrics: float) -> None:
    """Tells how many steps are done, of how many in the whole job, and figures such as the loss.

    Cheap enough for every step: what is sent are the latest values, a few times a second.
    """
    (_reporter or reporter()).note(step, total, metrics)
