"""A thread that sends progress reports to the scheduler a few times per second, without delaying a step.

A report holds all current values, so a lost report does no harm. The last report is sent again until it is received,
so a restarted scheduler learns the progress at once.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SEND_INTERVAL_S = 0.2
RETRY_INTERVAL_S = 1.0
MAX_METRICS = 64
MAX_NAME_CHARS = 100


class Sender:
    def __init__(self, job: str, run: int, path: str) -> None:
        import threading  # imports are inside functions to keep the import of this module fast

        self._identity = {"job": job, "run": run}
        self._path, self._socket, self._pid = path, None, os.getpid()  # type: str, Any, int
        self._lock = threading.RLock()  # a signal handler may report too
        self._send_lock = threading.RLock()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self._awake = True
        """True if the thread will check again without a wakeup. `_lock` guards this and the following fields."""
        self._unsent = False
        self.step: Any = None
        self._total: Any = None
        self._metrics: dict[str, Any] = {}
        self._checkpoint: Mapping[str, Any] | None = None
        self._stages: Callable[[], dict[str, Any]] | None = None
        self._start_thread(threading.Thread(target=self._run, name="weft-progress", daemon=True))

    def _start_thread(self, thread: Any) -> None:
        try:
            thread.start()
        except RuntimeError:  # no more threads: the last report is sent at exit
            return

    def update(self, step: Any, total: Any, metrics: dict[str, Any]) -> None:
        with self._lock:
            self.step = step
            if total is not None:
                self._total = total
            if metrics:
                self._metrics.update(metrics)
            self._mark_unsent()

    def _mark_unsent(self) -> None:
        self._unsent = True
        if not self._awake:
            self._awake = True
            self._wakeup.release()

    def update_stages(self, summary: Callable[[], dict[str, Any]]) -> None:
        with self._lock:
            self._stages = summary
            self._mark_unsent()

    def update_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        with self._lock:
            self._checkpoint = checkpoint
            self._unsent = True
        self.flush()

    def flush(self) -> bool:
        """Send unsent values. Return False if the scheduler does not receive them now."""
        if os.getpid() != self._pid:  # forked: these values belong to the parent
            return True
        if not self._send_lock.acquire(timeout=RETRY_INTERVAL_S):
            return False
        try:
            return self._flush()
        finally:
            self._send_lock.release()

    def body(self) -> dict[str, Any]:
        """Return the last values as a report without the times of stages."""
        with self._lock:
            step, total, metrics = _to_int(self.step), _to_int(self._total), dict(self._metrics)
        return {**self._identity, "step": step, "total": total, "metrics": _to_floats(metrics)}

    def _flush(self) -> bool:
        with self._lock:
            if not self._unsent:
                return True
            self._unsent = False
            step, total, checkpoint, metrics = self.step, self._total, self._checkpoint, dict(self._metrics)
        numbers = _to_floats(metrics)
        with self._lock:
            # replace tensors by numbers, so that they can be freed
            self._metrics = {**numbers, **{k: v for k, v in self._metrics.items() if metrics.get(k) is not v}}
        body = {"step": _to_int(step), "total": _to_int(total), "metrics": numbers, "checkpoint": checkpoint}
        if self._send({**self._identity, **body, **self._summarize()}):
            return True
        with self._lock:
            self._unsent = True
        return False

    def _summarize(self) -> dict[str, Any]:
        """Return the times of stages, if any are recorded."""
        if self._stages is None:
            return {}
        try:
            return {"stages": self._stages()}
        except Exception:  # any error: a report must not end the training
            return {}

    def _send(self, body: dict[str, Any]) -> bool:
        import json
        import socket

        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            # address it by path each time: a restarted scheduler has a new socket
            self._socket.sendto(json.dumps(body).encode("ascii"), self._path)
        except OSError:
            return False
        return True

    def _run(self) -> None:
        while True:
            with self._lock:
                self._awake = self._unsent
                idle = not self._awake
            if idle:
                self._wakeup.acquire()
            time.sleep(SEND_INTERVAL_S if self.flush() else RETRY_INTERVAL_S)


def _to_int(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _to_floats(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the metrics as plain numbers, None for those that are not finite. Leave out other values."""
    found: dict[str, float | None] = {}
    for name, value in list(metrics.items())[-MAX_METRICS:]:
        try:
            number = None if value is None else float(value)
        except Exception:  # any error: a report must not end the training
            continue
        # inf - inf and nan - nan are not 0
        found[name[:MAX_NAME_CHARS]] = number if number is not None and number - number == 0.0 else None
    return found
