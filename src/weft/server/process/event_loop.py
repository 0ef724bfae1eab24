"""The event loop of a server: asyncio's own, which measures each of its turns.

A turn is the time between two waits for input. No call is answered and no heartbeat is read meanwhile, so the longest
turn is the longest delay that one caller causes another.
"""

from __future__ import annotations

import asyncio
import fcntl
import selectors
import socket
import sys
import termios
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from weft.server.process.garbage import short_collections

T = TypeVar("T")
WINDOW_S: Final = 60.0
"""The longest turn of one to two such windows is kept."""


class Turns:
    """The longest turns of the last minute or two: wall time, and CPU time of the thread of the loop."""

    def __init__(self) -> None:
        self._began_s, self._began_cpu_s = time.perf_counter(), time.thread_time()
        self._now = self._before = (0.0, 0.0)
        self._window_ends = self._began_s + WINDOW_S

    def begin(self) -> None:
        self._began_s, self._began_cpu_s = time.perf_counter(), time.thread_time()

    def end(self) -> None:
        now = time.perf_counter()
        wall_s, cpu_s = now - self._began_s, time.thread_time() - self._began_cpu_s
        if now >= self._window_ends:
            is_recent = now < self._window_ends + WINDOW_S
            self._before, self._now = self._now if is_recent else (0.0, 0.0), (0.0, 0.0)
            self._window_ends = now + WINDOW_S
        self._now = (max(self._now[0], wall_s), max(self._now[1], cpu_s))

    @property
    def longest_s(self) -> float:
        return max(self._now[0], self._before[0])

    @property
    def longest_cpu_s(self) -> float:
        return max(self._now[1], self._before[1])


class _TimedSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns.end()
        try:
            return super().select(timeout)
        finally:
            self.turns.begin()


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop with the figures of its turns, in which the events of gRPC do not queue up."""

    def __init__(self) -> None:
        selector = _TimedSelector()
        super().__init__(selector)
        self.turns = selector.turns

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        super().add_reader(fd, _drained(fd, callback) if _is_of_grpc(callback) else callback, *args)


def _is_of_grpc(callback: Callable[..., Any]) -> bool:
    owner = getattr(getattr(callback, "func", callback), "__self__", None)
    return type(owner).__name__ == "PollerCompletionQueue"


def _drained(sock: socket.socket, callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callback, preceded by a read of all bytes but the one that it reads itself.

    A thread of gRPC writes a byte for each event. The callback handles all events, but reads a single byte. Under load
    the socket fills with bytes; then the thread blocks, and passes on one event for each turn of the loop.
    """

    def read_and_call(*args: Any) -> None:
        size = bytearray(4)
        fcntl.ioctl(sock.fileno(), termios.FIONREAD, size)
        extra = int.from_bytes(size, sys.byteorder) - 1
        if extra > 0:
            sock.recv(extra)
        callback(*args)

    return read_and_call


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a server until it ends."""
    with short_collections(), asyncio.Runner(loop_factory=TimedLoop) as runner:
        return runner.run(main)


def current_turns() -> Turns:
    """Return the figures of the running loop; without one, figures that stay empty."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Turns()
    return loop.turns if isinstance(loop, TimedLoop) else Turns()
