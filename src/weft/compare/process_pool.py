"""Tasks in processes of their own, a few at a time: one that raises or dies is reported, the others go on."""

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
from typing import Any, Final

from weft.errors import WeftError

REPORT_S: Final = 0.1
"""How often a worker says how far it is, and how often we look."""
CALLS: Final = 32
"""A worker looks at the clock once in so many calls."""

Tick = Callable[[int], None]
Work = Callable[[Any, Tick], Any]
"""A function of a module, its task, and what it is to call with how much is done."""
Watch = Callable[[int, int | None], None]
"""Told which task is how far; None: it has ended."""


@dataclass(frozen=True)
class Failed:
    """A task that came to nothing, and why."""

    what: str


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int


def cpus() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(work: Work, tasks: Sequence[Any], workers: int, watch: Watch) -> list[Any]:
    """What `work` makes of each task, or Failed. Whatever ends this early ends the workers too."""
    context = get_context("forkserver")  # forks from a process without threads, and with our modules loaded
    context.set_forkserver_preload([work.__module__])
    results: list[Any] = [None] * len(tasks)
    waiting = iter(enumerate(tasks))
    with _crew() as crew:
        while True:
            while len(crew) < max(workers, 1) and (following := next(waiting, None)) is not None:
                crew.append(_start(context, work, *following))
            if not crew:
                return results
            for worker in _ready(crew):
                _hear(worker, crew, results, watch)
            watch(-1, 0)


def _start(context: Any, work: Work, number: int, task: Any) -> _Worker:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_main, args=(work, task, theirs, os.getcwd()), daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # it inherits that: only we are interrupted
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return _Worker(process, ours, number)


def _ready(crew: list[_Worker]) -> list[_Worker]:
    found = wait([worker.pipe for worker in crew], timeout=REPORT_S)
    return [worker for worker in crew if worker.pipe in found]


def _hear(worker: _Worker, crew: list[_Worker], results: list[Any], watch: Watch) -> None:
    try:
        kind, value = worker.pipe.recv()
    except (EOFError, OSError):  # it hung up without a result
        worker.process.join()
        kind, value = "failed", f"its worker process died: {_how(worker.process.exitcode)}"
    if kind == "progress":
        watch(worker.task, value)
        return
    results[worker.task] = Failed(value) if kind == "failed" else value
    watch(worker.task, None)
    crew.remove(worker)
    _dismiss(worker)


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"{name}, perhaps for want of memory" if name == "SIGKILL" else name
    return f"signal {-code}"


@contextmanager
def _crew() -> Iterator[list[_Worker]]:
    crew: list[_Worker] = []
    try:
        yield crew
    finally:
        for worker in crew:
            worker.process.kill()
        for worker in crew:
            _dismiss(worker)


def _dismiss(worker: _Worker) -> None:
    worker.process.join()
    worker.process.close()
    worker.pipe.close()


# ---- in the worker


def _main(work: Work, task: Any, pipe: Connection, folder: str) -> None:
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
    os._exit(0)  # a journal of a million facts takes a while to take apart


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
        if calls % CALLS == 0 and (now := time.monotonic()) >= due:
            due = now + REPORT_S
            pipe.send(("progress", done))

    return tick
