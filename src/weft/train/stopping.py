"""Stopping in time: the scheduler asks by SIGTERM and by a file, and gives a job the time to save."""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident

from weft.train.reporting import reporter
from weft.train.run import this_run

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self

CHECKPOINTED = 85
"""The exit code that means: I saved my work, run me again."""
LOOK_S = 0.1
"""How often the file is looked for, at most."""

_told = False
_look_at = 0.0
_listens = False
_before: Any = None
"""What SIGTERM did before it was taken over; None: it has not been."""


def should_stop() -> bool:
    """Whether the job was told to stop: save, record the checkpoint, and exit. Cheap enough for every step.

    The first call in the main thread takes SIGTERM over, unless something else handles it already.
    """
    global _listens
    if not _listens:
        _listens = True
        import signal

        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            _take_over()
    if not (_told or _file_is_there()):
        return False
    this_run().goes_on()
    return True


class Preemptible:
    """Until it is left, SIGTERM sets `should_stop` instead of ending the process."""

    def __init__(self) -> None:
        self._restore: Any = None

    def __enter__(self) -> Self:
        self._restore = _take_over()
        return self

    def __exit__(self, *_: object) -> None:
        if self._restore is not None:
            import signal

            signal.signal(signal.SIGTERM, self._restore)

    @property
    def should_stop(self) -> bool:
        return should_stop()

    def requeue(self) -> NoReturn:
        """Exits with 85: the job is run again, and `resume_path` tells that run where to go on."""
        import threading

        this_run().goes_on()
        reporter().flush()
        if threading.current_thread() is threading.main_thread():
            sys.exit(CHECKPOINTED)
        for stream in (sys.stdout, sys.stderr):  # SystemExit would end this thread alone
            stream.flush()
        os._exit(CHECKPOINTED)


def preemptible() -> Preemptible:
    """For a `with` block in which the job saves its work when it is told to stop."""
    return Preemptible()


def _take_over() -> Any:
    """What SIGTERM did until now; None where it stays as it is: outside a job, or not in the main thread."""
    global _before
    if not this_run().preempt_file:
        return None
    import signal

    try:
        before = signal.signal(signal.SIGTERM, _on_term)
    except ValueError:
        return None
    if before is not _on_term:
        _before = before
    return before


def _on_term(_number: int, _frame: object) -> None:
    global _told
    _told = True


def _file_is_there() -> bool:
    global _told, _look_at
    path, now = this_run().preempt_file, time.monotonic()
    if not path or now < _look_at:
        return False
    _look_at = now + LOOK_S
    _told = os.path.exists(path)
    return _told


# ---- forks: a child must end when it is told to, or whoever waits for it waits forever

_masks: dict[int, Any] = {}
"""By thread: what was blocked before its fork. Python forgets signals that reach a child before it is set up."""


def _before_fork() -> None:
    if _before is not None:
        import signal

        _masks[get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _after_fork() -> None:
    if (mask := _masks.pop(get_ident(), None)) is not None:
        import signal

        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    global _listens
    _listens = False
    if _before is not None:
        import signal

        if signal.getsignal(signal.SIGTERM) is _on_term:
            signal.signal(signal.SIGTERM, _before)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
