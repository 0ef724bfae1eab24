"""A worker in the background: start one and wait until it has joined; end exactly that one."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.engines.process.shim.process_id import Identity, identify, is_alive, open_pidfd
from weft.errors import InputError, NotFound, Unreachable, WeftError

if TYPE_CHECKING:
    from weft.agent.state_dir import Folder
    from weft.agent.worker import Note

JOIN_S: Final = 60.0
"""How long a worker may take to join the scheduler."""
END_S: Final = 20.0
"""How long a worker, and then its runs, may take to end."""
Notify = Callable[["Folder", "Note"], None]
"""Called in the background process with each note of the worker."""


class StartedWorker(NamedTuple):
    """A worker that has joined."""

    worker: str
    process: str
    """BOOT:PID:START, which no other process ever has."""
    folder: str


class EndedWorker(NamedTuple):
    ended: bool
    """False: it had gone already."""
    killed: int
    """How many of its runs were killed."""


def start(work: Callable[[Notify], int]) -> StartedWorker | int:
    """Fork, and run `work` in the child. Return the worker in the parent once it has joined.

    An int is an exit code: of a child that ended before it joined, or, in the child itself, of `work`. Until it has
    joined, the child shares this process's stderr and reports there what is wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.setsid()
        os.chdir("/")
        return work(_reporter(writing))
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        joined = _wait_until_joined(child, pipe.fileno())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if joined is None else joined


def _reporter(writing: int) -> Notify:
    """Return what sends the worker's notes to the parent until it has joined, and then lets go of the terminal."""
    left = [writing]

    def notify(folder: Folder, note: Note) -> None:
        if not left:
            return
        message: dict[str, Any] = {"words": note.words}
        if note.what == "connected":
            who = identify(os.getpid())
            assert who is not None
            message = StartedWorker(folder.state.name, format_process(who), str(folder.state))._asdict()
        os.write(left[0], json.dumps(message).encode() + b"\n")
        if note.what == "connected":
            os.close(left.pop())
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            os.close(null)

    return notify


def _wait_until_joined(child: int, pipe: int) -> StartedWorker | None:
    """Return the worker once it has joined; None if the child ended instead."""
    until, rest, words = time.monotonic() + JOIN_S, b"", "the scheduler does not answer"
    while (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 1 << 16)
        if not part:
            return None
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "worker" in message:
                return StartedWorker(**message)
            words = message["words"].partition("\n")[0] or words
    os.kill(child, signal.SIGKILL)  # not reaped yet, so the pid is still the child's
    os.waitpid(child, 0)
    raise Unreachable(
        f"the worker has not joined after {JOIN_S:.0f} s: {words}\n  without --background it goes on trying"
    )


# ---- ending one


def format_process(who: Identity) -> str:
    return f"{who.boot}:{who.pid}:{who.start}"


def parse_process(text: str) -> Identity:
    boot, _, rest = text.partition(":")
    pid, _, start = rest.partition(":")
    if not (boot and pid.isascii() and pid.isdecimal() and start.isascii() and start.isdecimal()):
        raise InputError(f"--stop: {text[:80]!r} is not a process", hint="BOOT:PID:START, as --background printed it")
    return Identity(boot, int(pid), int(start))


def end(name: str, folder: Folder, only: str, *, kill: bool) -> EndedWorker:
    """End the worker of this name. `only` names a process: a worker of the same name started since is left alone."""
    from weft.agent.shutdown import kill_runs

    pid = folder.holder()
    who = identify(pid) if pid is not None else None
    if only and who != parse_process(only):
        who = None
    if who is None and not only:
        raise NotFound(f"no worker called {name} runs here\n  weft worker --id NAME --stop ends the one of that name")
    ended = who is not None and end_process(who, END_S)
    killed = kill_runs(folder, END_S) if kill and folder.holder() is None else 0
    return EndedWorker(ended, killed)


def end_process(who: Identity, patience_s: float) -> bool:
    """Send SIGTERM, then SIGKILL where that is not enough. Return False if the process had gone already."""
    handle = open_pidfd(who)
    if handle is None:
        return False
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], patience_s)[0] or not is_alive(who):
                return True
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)
    raise WeftError(f"process {who.pid} does not end\n  is it waiting for a disk?")
