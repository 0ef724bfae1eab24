"""The server of the emulated device: shares the resources of a node among the jobs that hold them.

    python -m weft.train.emulated.server SOCKET [--capacity data=2,gpu=1,net=1] [--loss gpu=0.15] [--idle S]

A job connects and sends `hold NAME SECONDS`; NAME is a stage and the GPUs, such as `gpu:0,1`. The server answers `done`
when the hold has been served, and `served SECONDS` if the job sends `cancel` before. A job that dies lets go. `device`
starts a server where none runs; it ends when no job has been connected for `--idle` seconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from weft.train.emulated.sharing import INFINITE, Resource

CAPACITIES = {"data": 2.0, "gpu": 1.0, "net": 1.0}
"""Two jobs load data at full speed, as in Muri's cycle of four slots."""
OPTIONS = ("--capacity", "--loss", "--idle", "--background", "--with-parent")
IDLE_S = 30.0
MAX_MESSAGE_BYTES = 1024
MAX_HOLD_S = 86400.0


class Server:
    def __init__(self, path: str, capacities: dict[str, float], losses: dict[str, float], idle_s: float) -> None:
        self.path, self._capacities, self._losses, self._idle_s = path, capacities, losses, idle_s
        self._resources: dict[str, Resource] = {}
        self._jobs: dict[int, socket.socket] = {}
        self._held: dict[int, str] = {}
        """The resource that each job holds, by the descriptor of its connection."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._inode = os.stat(path).st_ino
        self._listener.listen(512)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._pipe = -1

    def end_with(self, pipe: int) -> None:
        """End when the other end of this pipe is closed."""
        self._pipe = pipe
        self._poll.register(pipe, 0)  # a closed pipe is reported in any case

    def serve(self) -> None:
        """Serve until no job has been connected for the idle time, until SIGTERM, or until the parent has ended."""
        empty_since = time.monotonic()
        while self._jobs or time.monotonic() - empty_since < self._idle_s:
            for handle, _ in self._poll.poll(self._timeout_ms()):
                if handle == self._pipe:
                    return
                if handle == self._listener.fileno():
                    self._accept()
                else:
                    self._receive(handle)
            self._finish(time.monotonic())
            if self._jobs:
                empty_since = time.monotonic()

    def close(self) -> None:
        for each in (self._listener, *self._jobs.values()):
            each.close()
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self.path).st_ino == self._inode:  # not that of the next server
                os.unlink(self.path)

    def _timeout_ms(self) -> float:
        due = min((each.next_end() for each in self._resources.values()), default=INFINITE)
        if due == INFINITE:
            return 1000.0
        return max(1000.0 * (due - time.monotonic()), 0.0)

    def _accept(self) -> None:
        job, _ = self._listener.accept()
        self._jobs[job.fileno()] = job
        self._poll.register(job, select.POLLIN)

    def _receive(self, handle: int) -> None:
        job, now = self._jobs[handle], time.monotonic()
        try:
            words = job.recv(MAX_MESSAGE_BYTES).decode("ascii", "replace").split()
        except OSError:
            words = []
        if words[:1] == ["hold"] and len(words) == 3:
            self._hold(handle, words[1], words[2], now)
        elif words == ["cancel"]:
            self._reply(handle, f"served {self._release(handle, now)!r}")
        else:  # the job has ended, or makes no sense
            self._release(handle, now)
            self._poll.unregister(job)
            del self._jobs[handle]
            job.close()

    def _hold(self, handle: int, name: str, text: str, now: float) -> None:
        try:
            seconds = min(max(float(text), 0.0), MAX_HOLD_S)
        except ValueError:
            seconds = 0.0
        self._release(handle, now)
        kind = name.partition(":")[0]
        resource = self._resources.get(name)
        if resource is None:
            resource = self._resources[name] = Resource(self._capacities.get(kind, 1.0), self._losses.get(kind, 0.0))
        resource.add(handle, seconds, now)
        self._held[handle] = name

    def _release(self, handle: int, now: float) -> float:
        name = self._held.pop(handle, None)
        if name is None:
            return 0.0
        served_s = self._resources[name].remove(handle, now)
        if not self._resources[name].tasks:
            del self._resources[name]
        return served_s

    def _finish(self, now: float) -> None:
        for name, resource in list(self._resources.items()):
            for handle in resource.finished(now):
                del self._held[handle]  # type: ignore[arg-type]
                self._reply(handle, "done")  # type: ignore[arg-type]
            if not resource.tasks:
                del self._resources[name]

    def _reply(self, handle: int, text: str) -> None:
        with contextlib.suppress(OSError):  # a job that has just died
            self._jobs[handle].send(text.encode())


def parse_amounts(text: str, defaults: dict[str, float], low: float, high: float) -> dict[str, float]:
    """Parse `data=2,gpu=1`; raise ValueError for other text."""
    found = dict(defaults)
    for word in filter(None, text.split(",")):
        name, _, amount = word.partition("=")
        if name not in CAPACITIES or not _is_between(amount, low, high):
            expected = f"expected {'=N, '.join(CAPACITIES)}=N with numbers from {low:g} to {high:g}"
            raise ValueError(f"{word!r}: {expected}")
        found[name] = float(amount)
    return found


def _is_between(text: str, low: float, high: float) -> bool:
    try:
        return low <= float(text) <= high
    except ValueError:
        return False


def parse_options(words: list[str]) -> dict[str, str]:
    """Parse pairs of an option and its value; raise ValueError for others."""
    options = dict(zip(words[::2], words[1::2], strict=False))
    for name in words[::2]:
        if name not in OPTIONS:
            raise ValueError(f"unknown option {name!r}: expected {', '.join(OPTIONS)}")
        if name not in options:
            raise ValueError(f"{name} needs a value")
    return options


def parse(words: list[str]) -> tuple[dict[str, float], dict[str, float], float, dict[str, str]]:
    """Return the capacities, the losses, the idle time and all options; raise ValueError if one makes no sense."""
    options = parse_options(words)
    capacities = parse_amounts(options.get("--capacity", ""), CAPACITIES, 0.01, 1000.0)
    losses = parse_amounts(options.get("--loss", ""), {}, 0.0, 0.99)
    idle = options.get("--idle", str(IDLE_S))
    if not _is_between(idle, 0.0, MAX_HOLD_S):
        raise ValueError(f"--idle {idle!r}: expected seconds from 0 to {MAX_HOLD_S:g}")
    return capacities, losses, float(idle), options


def main(words: list[str]) -> int:
    try:
        if not words or words[0].startswith("-"):
            raise ValueError("expected the path of a socket, then options")
        capacities, losses, idle_s, options = parse(words[1:])
        server = Server(words[0], capacities, losses, idle_s)
    except (ValueError, OSError) as error:
        os.write(2, f"emulated device: {error}\n".encode())
        return 2
    if options.get("--background") and os.fork():
        os._exit(0)
    if options.get("--with-parent"):
        server.end_with(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.write(1, f"emulated device at {words[0]}: capacities {capacities}, losses {losses}\n".encode())
    try:
        server.serve()
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
