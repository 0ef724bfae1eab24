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
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from weft.access.client.terminals import Tunnel
from weft.access.endpoints.paths import Paths
from weft.access.wire.messages import TerminalPart
from weft.errors import InputError, NotFound, WeftError
from weft.node.engine.shim import terminal as run_terminal
from weft.node.engine.shim.run_files import run_dir

if TYPE_CHECKING:
    from weft.access.client import Client

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


def attach_runs(client: Client, job: str) -> None:
    """Connect this terminal to each run of a job until the job has ended."""
    done = 0
    while run := _await_run(client, job, done):
        if isinstance(client.where, Paths):
            sock = _connect(client, client.where, job, run)
            if sock is not None:
                with sock:
                    relay(sock)
        else:
            _relay_to_node(client, job, run)
        done = run


def _relay_to_node(client: Client, job: str, run: int) -> None:
    """Connect this terminal to a run on a node of a cluster."""
    tunnel = Tunnel(client.open_terminal, TerminalPart(job=job, run=run))
    with tunnel.socket:
        relay(tunnel.socket)
    if tunnel.error is not None and not isinstance(tunnel.error, NotFound):  # not found: the run has ended
        raise tunnel.error


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
    while time.monotonic() < until:
        with suppress(OSError):
            return _connect_here(paths, job, run)
        (only,) = client.jobs([job]).jobs
        if only.ended or only.run != run:
            return None
        time.sleep(RETRY_S)
    raise WeftError(
        f"the terminal of job {job} does not answer\n  weft logs {job} may say why; weft cancel {job} ends it"
    )


def _connect_here(paths: Paths, job: str, run: int) -> socket.socket:
    """Connect to the terminal of a run on this machine. Raise OSError if it does not listen."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        directory = os.open(run_dir(str(paths.jobs), job, run), os.O_PATH | os.O_DIRECTORY)
        try:
            sock.connect(f"/proc/self/fd/{directory}/{run_terminal.SOCKET}")
        finally:
            os.close(directory)
    except OSError:
        sock.close()
        raise
    return sock


def relay(sock: socket.socket, *, is_terminal: bool = True) -> None:
    """Pass bytes and window sizes on to the run, and its output to this process's, until the run closes it."""
    reading, waking = os.pipe()
    os.set_blocking(waking, False)
    pending = bytearray(_window_frame())
    sock.setblocking(False)
    open_inputs = [STDIN]
    try:
        with _raw_mode() if is_terminal else nullcontext(), _window_changes(waking):
            while True:
                writes: list[Any] = [sock] if pending else []
                reads: list[Any] = [sock, reading] if pending else [sock, reading, *open_inputs]
                can_read, can_write, _ = select.select(reads, writes, [])
                if reading in can_read:
                    os.read(reading, CHUNK_BYTES)
                    pending += _window_frame()
                if STDIN in can_read:
                    typed = os.read(STDIN, CHUNK_BYTES)
                    pending += run_terminal.FRAME.pack(run_terminal.DATA, len(typed)) + typed
                    open_inputs = open_inputs if typed else []
                if sock in can_write:
                    try:
                        del pending[: sock.send(pending)]
                    except (BrokenPipeError, ConnectionResetError):
                        open_inputs = []  # the command has ended; its output may still be in the socket
                        pending.clear()
                if sock in can_read and not _show(sock):
                    return
    except (BrokenPipeError, ConnectionResetError):
        return  # the output is no longer read
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
