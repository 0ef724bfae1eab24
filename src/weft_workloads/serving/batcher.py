"""Batches of requests: a thread that works on one batch at a time, and the rule for how long a batch waits to fill."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

MAX_WAITING: Final = 10_000
LATENCY_PARTS: Final = 6
PERIOD_S: Final = 1.0


class AdaptiveWait:
    """The time to wait for a full batch. Pure: times come from the caller.

    Each second: not at all if a request is answered before the next one comes, on average; otherwise a sixth of the
    mean latency.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._latency_s, self._answered, self._since = 0.0, 0, -1.0

    def answered(self, now: float, latencies_s: Sequence[float]) -> None:
        """Count answers. At the end of each second, set the wait for the next one."""
        if self._since < 0:
            self._since = now
        self._latency_s += sum(latencies_s)
        self._answered += len(latencies_s)
        elapsed_s = now - self._since
        if elapsed_s < PERIOD_S or not self._answered:
            return
        mean_s, gap_s = self._latency_s / self._answered, elapsed_s / self._answered
        self.seconds = 0.0 if mean_s < gap_s else mean_s / LATENCY_PARTS
        self._latency_s, self._answered, self._since = 0.0, 0, now


class Batcher:
    """Collects requests and works on them in batches of at most `size`, in the order in which they came."""

    def __init__(
        self, work: Callable[[list[Any]], list[Any]], size: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._work, self._size, self._clock = work, size, clock
        self.wait = AdaptiveWait()
        self.batches = self.requests = 0
        self._waiting: queue.Queue[tuple[float, Any, Future[Any]] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def submit(self, sample: Any) -> Future[Any]:
        """Queue a request. Raise queue.Full if too many wait."""
        answer: Future[Any] = Future()
        self._waiting.put_nowait((self._clock(), sample, answer))
        return answer

    def close(self) -> None:
        """Answer what is queued, then end."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, is_last = self._fill(first)
            self._answer(batch)
            if is_last:
                return

    def _fill(self, first: tuple[float, Any, Future[Any]]) -> tuple[list[tuple[float, Any, Future[Any]]], bool]:
        """Return a batch, and whether it is the last one."""
        batch, until = [first], self._clock() + self.wait.seconds
        while len(batch) < self._size:
            left_s = until - self._clock()
            try:
                found = self._waiting.get(timeout=left_s) if left_s > 0 else self._waiting.get_nowait()
            except queue.Empty:
                break
            if found is None:
                return batch, True
            batch.append(found)
        return batch, False

    def _answer(self, batch: list[tuple[float, Any, Future[Any]]]) -> None:
        batch = [each for each in batch if each[2].set_running_or_notify_cancel()]
        if not batch:
            return
        self.batches += 1
        self.requests += len(batch)
        try:
            answers = self._work([sample for _, sample, _ in batch])
            for (_, _, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        except Exception as error:  # of the model: each request of the batch fails, and the server goes on
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(error)
        now = self._clock()
        self.wait.answered(now, [now - came for came, _, _ in batch])
