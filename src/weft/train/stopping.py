"""Requests to stop: the scheduler sends SIGTERM and creates a file, then gives the job time to save."""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident

from weft.train.reporting import reporter
from weft.train.run import this_run

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self

EXIT_CHECKPOINTED = 85
"""The exit code of a run that has saved its work and asks to run again."""
FILE_POLL_S = 0.1
"""Minimum time between two checks for the file."""

_stop_requested = False
_next_poll = 0.0
_handler_checked = False
_previous_handler: Any = None
"""The handler of SIGTERM before `_install_handler`; None if it was not installed."""


def should_stop() -> bool:
    """Return whether the job is asked to stop: it should save, record the checkpoint, and exit.

    Call it in every step: it is cheap. The first call in the main thread handles SIGTERM, unless the job already does.
    """
    global _handler_checked
    if not _handler_checked:
        _handler_checked = True
        import signal

        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            _install_handler()
    if not is_requested():
        return False
    this_run().clear_last_step()
    return True


def is_requested() -> bool:
    """Return whether the job is asked to stop, without handling SIGTERM."""
    return _stop_requested or _poll_file()


class Preemptible:
    """A context in which SIGTERM sets `should_stop` instead of ending the process."""

    def __init__(self) -> None:
        self._restore: Any = None

    def __enter__(self) -> Self:
        self._restore = _install_handler()
        return self

    def __exit__(self, *_: object) -> None:
        if self._restore is not None:
            import signal

            signal.signal(signal.SIGTERM, self._restore)

    @property
    def should_stop(self) -> bool:
        return should_stop()

    def requeue(self) -> NoReturn:
        """Exit with code 85: the job runs again, and `resume_path` tells that run where to continue."""
        import threading

        this_run().clear_last_step()
        reporter().flush()
        if threading.current_thread() is threading.main_thread():
            sys.exit(EXIT_CHECKPOINTED)
        for stream in (sys.stdout, sys.stderr):  # SystemExit would end this thread alone
            stream.flush()
        os._exit(EXIT_CHECKPOINTED)


def preemptible() -> Preemptible:
    """Return a context for a `with` block in which the job saves its work when it is asked to stop."""
    return Preemptible()


def _install_handler() -> Any:
    """Handle SIGTERM and return its previous handler; return None outside a job and outside the main thread."""
    global _previous_handler
    if not this_run().preempt_file:
        return None
    import signal

    try:
        before = signal.signal(signal.SIGTERM, _on_term)
    except ValueError:
        return None
    if before is not _on_term:
        _previous_handler = before
    return before


def _on_term(_number: int, _frame: object) -> None:
    global _stop_requested
    _stop_requested = True


def _poll_file() -> bool:
    global _stop_requested, _next_poll
    path, now = this_run().preempt_file, time.monotonic()
    if not path or now < _next_poll:
        return False
    _next_poll = now + FILE_POLL_S
    if os.path.exists(path):  # never clear the flag: SIGTERM may have set it meanwhile
        _stop_requested = True
    return _stop_requested


# ---- forks: a child must end on SIGTERM, or a parent that waits for it hangs

_signal_masks: dict[int, Any] = {}
"""The signal mask before a fork, by thread. Python loses signals that reach a child before the child is set up."""


def _before_fork() -> None:
    if _previous_handler is not None:
        import signal

        _signal_masks[get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _after_fork() -> None:
    if (mask := _signal_masks.pop(get_ident(), None)) is not None:
        import signal

        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    global _handler_checked
    _handler_checked = False
    if _previous_handler is not None:
        import signal

        if signal.getsignal(signal.SIGTERM) is _on_term:
            signal.signal(signal.SIGTERM, _previous_handler)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
