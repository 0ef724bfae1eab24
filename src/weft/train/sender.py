"""Carries reports to the scheduler: by a thread of its own, a few a second, and without ever making a step wait.

A report says all that is known, not what is new: one that is lost does not matter. Whatever was said last is sent again
until somebody has taken it, so a scheduler that comes back knows at once where the job is.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PERIOD_S = 0.2
RETRY_S = 1.0
MOST_METRICS = 64
LONGEST_NAME = 100


class Sender:
    def __init__(self, job: str, run: int, path: str) -> None:
        import threading  # here and below: whoever only imports this waits for none of it

        self._names = {"job": job, "run": run}
        self._path, self._socket, self._pid = path, None, os.getpid()  # type: str, Any, int
        self._lock = threading.RLock()  # a signal handler may report too
        self._sending = threading.RLock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._awake = True
        """Whether the thread will look again by itself. It and what follows are guarded by the lock."""
        self._fresh = False
        self.step: Any = None
        self._total: Any = None
        self._metrics: dict[str, Any] = {}
        self._checkpoint: Mapping[str, Any] | None = None
        self._start(threading.Thread(target=self._work, name="weft-progress", daemon=True))

    def _start(self, thread: Any) -> None:
        try:
            thread.start()
        except RuntimeError:  # no more threads: what was said last is sent at the end
            return

    def note(self, step: Any, total: Any, metrics: dict[str, Any]) -> None:
        with self._lock:
            self.step = step
            if total is not None:
                self._total = total
            if metrics:
                self._metrics.update(metrics)
            self._fresh = True
            if not self._awake:
                self._awake = True
                self._bell.release()

    def note_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        with self._lock:
            self._checkpoint = checkpoint
            self._fresh = True
        self.flush()

    def flush(self) -> bool:
        """Sends what has not been sent; False: nobody takes it now."""
        if os.getpid() != self._pid:  # forked: what is known here is the parent's
            return True
        if not self._sending.acquire(timeout=RETRY_S):
            return False
        try:
            return self._flush()
        finally:
            self._sending.release()

    def _flush(self) -> bool:
        with self._lock:
            if not self._fresh:
                return True
            self._fresh = False
            step, total, checkpoint, metrics = self.step, self._total, self._checkpoint, dict(self._metrics)
        numbers = _numbers(metrics)
        with self._lock:
            # tensors are not kept alive for this
            self._metrics = {**numbers, **{k: v for k, v in self._metrics.items() if metrics.get(k) is not v}}
        body = {"step": _whole(step), "total": _whole(total), "metrics": numbers, "checkpoint": checkpoint}
        if self._send({**self._names, **body}):
            return True
        with self._lock:
            self._fresh = True
        return False

    def _send(self, body: dict[str, Any]) -> bool:
        import json
        import socket

        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            # by its path every time: the socket of a new scheduler is another one
            self._socket.sendto(json.dumps(body).encode("ascii"), self._path)
        except OSError:
            return False
        return True

    def _work(self) -> None:
        while True:
            with self._lock:
                self._awake = self._fresh
                idle = not self._awake
            if idle:
                self._bell.acquire()
            time.sleep(PERIOD_S if self.flush() else RETRY_S)


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """As plain numbers; None: not a finite one. What is no number at all is left out."""
    found: dict[str, float | None] = {}
    for name, value in list(metrics.items())[-MOST_METRICS:]:
        try:
            number = None if value is None else float(value)
        except Exception:  # of whatever kind: a report must not end the training
            continue
        # inf - inf and nan - nan are no zeros
        found[name[:LONGEST_NAME]] = number if number is not None and number - number == 0.0 else None
    return found
