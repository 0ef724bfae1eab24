"""A process pool: runs each task in its own process. A task that raises or dies is reported; the others continue."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

from weft.errors import WeftError

REPORT_S: Final = 0.1
"""Seconds between progress reports of a worker, and between refreshes of the parent."""
TICKS_PER_CLOCK_READ: Final = 32
"""A worker reads the clock once in this many ticks."""

Tick = Callable[[int], None]
Work = Callable[[Any, Tick], Any]
"""A function of a module, called with a task and a `Tick`. It calls the tick with the amount of work done so far."""


class Progress(Protocol):
    """An observer of the tasks, called in the parent process. A task is named by its index in the sequence of tasks."""

    def update(self, task: int, done: int) -> None:
        """Set how much of a task is done."""

    def finish(self, task: int) -> None:
        """Mark a task as ended, with a result or a failure."""

    def refresh(self) -> None:
        """Redraw. Called after every report, and at least every `REPORT_S`."""


class SilentProgress:
    """An observer that shows nothing."""

    def update(self, task: int, done: int) -> None:
        """Do nothing."""

    def finish(self, task: int) -> None:
        """Do nothing."""

    def refresh(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class TaskFailure:
    """The result of a task that raised, or whose process died."""

    reason: str


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int


def count_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(work: Work, tasks: Sequence[Any], processes: int, progress: Progress) -> list[Any]:
    """Return the result of `work` for each task, or a TaskFailure. An exception in this process kills the workers."""
    context = get_context("forkserver")  # forks from a process that has no threads and has loaded the modules
    context.set_forkserver_preload([work.__module__])
    results: list[Any] = [None] * len(tasks)
    waiting = iter(enumerate(tasks))
    with _killed_on_exit() as pool:
        while True:
            while len(pool) < max(processes, 1) and (numbered := next(waiting, None)) is not None:
                pool.append(_start(context, work, *numbered))
            if not pool:
                return results
            for worker in _ready(pool):
                _receive(worker, pool, results, progress)
            progress.refresh()


def _start(context: Any, work: Work, number: int, task: Any) -> _Worker:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_worker_main, args=(work, task, theirs, os.getcwd()), daemon=True)
    # the child inherits the mask: Ctrl-C interrupts only the parent
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return _Worker(process, ours, number)


def _ready(pool: list[_Worker]) -> list[_Worker]:
    found = wait([worker.pipe for worker in pool], timeout=REPORT_S)
    return [worker for worker in pool if worker.pipe in found]


def _receive(worker: _Worker, pool: list[_Worker], results: list[Any], progress: Progress) -> None:
    try:
        kind, value = worker.pipe.recv()
    except (EOFError, OSError):  # the pipe closed without a result
        worker.process.join()
        kind, value = "failed", f"its worker process died: {_exit_reason(worker.process.exitcode)}"
    if kind == "progress":
        progress.update(worker.task, value)
        return
    results[worker.task] = TaskFailure(value) if kind == "failed" else value
    progress.finish(worker.task)
    pool.remove(worker)
    _release(worker)


def _exit_reason(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"{name}, perhaps out of memory" if name == "SIGKILL" else name
    return f"signal {-code}"


@contextmanager
def _killed_on_exit() -> Iterator[list[_Worker]]:
    pool: list[_Worker] = []
    try:
        yield pool
    finally:
        for worker in pool:
            worker.process.kill()
        for worker in pool:
            _release(worker)


def _release(worker: _Worker) -> None:
    worker.process.join()
    worker.process.close()
    worker.pipe.close()


def _worker_main(work: Work, task: Any, pipe: Connection, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    try:
        message = ("done", work(task, _ticker(pipe)))
    except BrokenPipeError:  # the parent is gone
        return
    except Exception as error:
        message = ("failed", _explain(error))
    with suppress(BrokenPipeError):
        pipe.send(message)
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # skips freeing the journal, which takes long with a million facts


def _explain(error: Exception) -> str:
    if isinstance(error, WeftError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


def _ticker(pipe: Connection) -> Tick:
    calls, due = 0, time.monotonic() + REPORT_S

    def tick(done: int) -> None:
        nonlocal calls, due
        calls += 1
        if calls % TICKS_PER_CLOCK_READ == 0 and (now := time.monotonic()) >= due:
            due = now + REPORT_S
            pipe.send(("progress", done))

    return tick
