"""Copies of this process, one for each sample. Each lets its scheduler run forward and returns what it found.

A copy shares the memory of the original until it writes, so no state is copied, restored or put back, whatever the
policy remembers. The process must have one thread.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Final, NoReturn, Self

from weft.errors import WeftError

OK: Final = b"+"
FAILED: Final = b"-"


class Branches:
    """Makes copies while it is open."""

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()  # a copy need not touch what is there already
        self._began_s = cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()

    @property
    def cpu_s(self) -> float:
        """The CPU seconds of all copies so far."""
        return cpu_s() - self._began_s

    def run(self, task: Callable[[], bytes]) -> bytes:
        """Return what the task returns in a copy of this process."""
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            _be_branch(theirs, task)
        os.close(theirs)
        try:
            with open(ours, "rb") as pipe:
                answer = pipe.read()
        finally:
            os.waitpid(pid, 0)
        if answer[:1] == OK:
            return answer[1:]
        raise WeftError(f"a forecast failed: {answer[1:].decode(errors='replace') or 'its process ended'}")


def _be_branch(theirs: int, task: Callable[[], bytes]) -> NoReturn:
    """Run, write the result and end, without the clean-up that belongs to the original."""
    gc.disable()  # the branch ends soon
    try:
        answer = OK + task()
    except BaseException as error:  # also an interrupt: the original reports it
        answer = FAILED + f"{type(error).__name__}: {error}".encode()
    try:
        with open(theirs, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def cpu_s() -> float:
    """Return the CPU seconds of this process and its ended copies."""
    found = os.times()
    return found.children_user + found.children_system + time.process_time()
