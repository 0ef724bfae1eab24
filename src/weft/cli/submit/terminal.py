"""The user's side of `weft run --pty`: the terminal of this process, connected to the terminal of the run."""

from __future__ import annotations

import os
import select
import signal
import socket
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from weft.engines.process.shim import terminal as run_terminal
from weft.engines.process.shim.run_files import run_dir
from weft.errors import InputError, WeftError

if TYPE_CHECKING:
    from weft.client import Client
    from weft.endpoints.paths import Paths

STDIN: Final = 0
STDOUT: Final = 1
CHUNK_BYTES: Final = 1 << 15
CONNECT_TIMEOUT_S: Final = 60.0
RETRY_S: Final = 0.05


def terminal_type() -> str:
    """Return the type of the terminal of this process; raise if there is none."""
    if not os.isatty(STDIN):
        raise InputError("--pty needs a terminal as standard input", hint="without --pty, weft run passes on a pipe")
    return os.environ.get("TERM") or "dumb"


def attach_runs(client: Client, paths: Paths, job: str) -> None:
    """Connect this terminal to each run of a job until the job has ended."""
    done = 0
    while run := _await_run(client, job, done):
        sock = _connect(client, paths, job, run)
        if sock is not None:
            with sock:
                relay(sock)
        done = run


def _await_run(client: Client, job: str, after: int) -> int:
    """Return the number of the next run once it runs; 0 if the job has ended."""
    while True:
        found = client.jobs([job])
        (only,) = found.jobs
        if only.ended:
            return 0
        if only.status == "running" and only.run > after:
            return only.run
        for fact in client.watch(found.position):
            if fact["fact"] == "Purged" or fact.get("job") == job:
                break


def _connect(client: Client, paths: Paths, job: str, run: int) -> socket.socket | None:
    """Connect to the terminal of a run; return None if the run has ended meanwhile."""
    until = time.monotonic() + CONNECT_TIMEOUT_S
    folder = run_dir(str(paths.jobs), job, run)
    while time.monotonic() < until:
        sock = socket.socket(socket.AF_UNIX)
        try:
            directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            try:
                sock.connect(f"/proc/self/fd/{directory}/{run_terminal.SOCKET}")
            finally:
                os.close(directory)
        except OSError:
            sock.close()
        else:
            return sock
        (only,) = client.jobs([job]).jobs
        if only.ended or only.run != run:
            return None
        time.sleep(RETRY_S)
    raise WeftError(
        f"the terminal of job {job} does not answer\n  weft logs {job} may say why; weft cancel {job} ends it"
    )


def relay(sock: socket.socket) -> None:
    """Pass bytes and window sizes on to the run, and its output to this terminal, until the run closes it."""
    reading, waking = os.pipe()
    os.set_blocking(waking, False)
    pending = bytearray(_window_frame())
    sock.setblocking(False)
    try:
        with _raw_mode(), _window_changes(waking):
            while True:
                writes: list[Any] = [sock] if pending else []
                reads: list[Any] = [sock, reading] if pending else [sock, reading, STDIN]
                can_read, can_write, _ = select.select(reads, writes, [])
                if reading in can_read:
                    os.read(reading, CHUNK_BYTES)
                    pending += _window_frame()
                if STDIN in can_read and (typed := os.read(STDIN, CHUNK_BYTES)):
                    pending += run_terminal.FRAME.pack(run_terminal.DATA, len(typed)) + typed
                if sock in can_write:
                    del pending[: sock.send(pending)]
                if sock in can_read and not _show(sock):
                    return
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        os.close(reading)
        os.close(waking)


def _show(sock: socket.socket) -> bool:
    """Write output to this terminal; return False at its end."""
    data = sock.recv(CHUNK_BYTES)
    if not data:
        return False
    while data:
        data = data[os.write(STDOUT, data) :]
    return True


def _window_frame() -> bytes:
    try:
        size = os.get_terminal_size(STDIN)
        body = run_terminal.WINDOW.pack(size.lines, size.columns)
    except OSError:
        body = run_terminal.WINDOW.pack(24, 80)
    return run_terminal.FRAME.pack(run_terminal.RESIZE, len(body)) + body


@contextmanager
def _raw_mode() -> Iterator[None]:
    """Pass every key on, Ctrl-C included."""
    before = termios.tcgetattr(STDIN)
    tty.setraw(STDIN, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextmanager
def _window_changes(waking: int) -> Iterator[None]:
    """Write a byte to `waking` when the window changes its size."""

    def wake(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(waking, b"w")

    before = signal.signal(signal.SIGWINCH, wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
