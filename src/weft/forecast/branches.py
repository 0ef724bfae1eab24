"""Copies of this process, one for each sample. Each lets its scheduler run forward and returns what it found.

A copy shares the memory of the original until it writes, so no state is copied, restored or put back, whatever the
policy remembers. The process must have one thread.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from weft.errors import WeftError

OK: Final = b"+"
FAILED: Final = b"-"
MIN_SAMPLES: Final = 5
"""Samples that are made whatever they take."""


def run_branches(count: int, run: Callable[[int], bytes], budget_s: float = float("inf")) -> Iterator[bytes]:
    """Yield what `run` returns for 0, 1, ... in copies of this process. End early if they take more CPU seconds than
    the budget."""
    gc.collect()
    gc.freeze()
    began_s = cpu_s()
    try:
        for number in range(count):
            if number >= MIN_SAMPLES and cpu_s() - began_s > budget_s:
                return
            yield _run_branch(number, run)
    finally:
        gc.unfreeze()


def _run_branch(number: int, run: Callable[[int], bytes]) -> bytes:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_branch(theirs, number, run)
    os.close(theirs)
    try:
        with open(ours, "rb") as pipe:
            answer = pipe.read()
    finally:
        os.waitpid(pid, 0)
    if answer[:1] == OK:
        return answer[1:]
    raise WeftError(f"a forecast failed: {answer[1:].decode(errors='replace') or 'its process ended'}")


def _be_branch(theirs: int, number: int, run: Callable[[int], bytes]) -> NoReturn:
    """Run, write the result and end, without the clean-up that belongs to the original."""
    gc.disable()  # the branch ends soon
    try:
        answer = OK + run(number)
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
