"""Starts a worker in the background and waits until it has joined; ends exactly that worker."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.errors import InputError, NotFound, Unreachable, WeftError
from weft.node.engine.shim.process_id import Identity, identify, is_alive, open_pidfd

if TYPE_CHECKING:
    from weft.node.agent.state_dir import AgentDir
    from weft.node.agent.worker_event import WorkerEvent

JOIN_TIMEOUT_S: Final = 60.0
"""Limit for a worker to join the scheduler."""
END_TIMEOUT_S: Final = 20.0
"""Limit for a worker to end once the grace of its runs is over, and then for the runs that it left to end."""
LEAVE_GRACE_S: Final = 20.0
"""The grace that a leaving worker gives its runs unless it was started with --leave-grace."""
Notify = Callable[["AgentDir", "WorkerEvent"], None]
"""Called in the background process for each event of the worker."""


class StartedWorker(NamedTuple):
    """A worker that has joined."""

    worker: str
    process: str
    """BOOT:PID:START, unique to this process."""
    folder: str


class EndedWorker(NamedTuple):
    ended: bool
    """False: the worker had ended before."""
    killed: int
    """Number of its runs that were killed."""


def start(work: Callable[[Notify], int]) -> StartedWorker | int:
    """Fork, and run `work` in the child. Return the worker in the parent once it has joined.

    An int is an exit code. The parent returns the child's if the child ended before it joined; the child itself
    returns that of `work`. Until it has joined, the child reports errors on the stderr of the parent."""
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
    """Return a function that sends the worker's events to the parent. Once the worker joins, it leaves the terminal."""
    open_pipes = [writing]

    def notify(folder: AgentDir, event: WorkerEvent) -> None:
        if not open_pipes:
            return
        message: dict[str, Any] = {"reason": event.reason}
        if event.kind == "connected":
            identity = identify(os.getpid())
            assert identity is not None
            message = StartedWorker(folder.state.name, format_process(identity), str(folder.state))._asdict()
        os.write(open_pipes[0], json.dumps(message).encode() + b"\n")
        if event.kind == "connected":
            os.close(open_pipes.pop())
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            os.close(null)

    return notify


def _wait_until_joined(child: int, pipe: int) -> StartedWorker | None:
    """Return the worker once it has joined; None if the child ended instead."""
    until, rest, reason = time.monotonic() + JOIN_TIMEOUT_S, b"", "the scheduler does not answer"
    while (left_s := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left_s)[0]:
            break
        part = os.read(pipe, 1 << 16)
        if not part:
            return None
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "worker" in message:
                return StartedWorker(**message)
            reason = message["reason"].partition("\n")[0] or reason
    os.kill(child, signal.SIGKILL)  # not reaped yet, so the pid is still the child's
    os.waitpid(child, 0)
    raise Unreachable(
        f"the worker has not joined after {JOIN_TIMEOUT_S:.0f} s: {reason}\n  a worker in the foreground keeps trying"
    )


def format_process(identity: Identity) -> str:
    return f"{identity.boot}:{identity.pid}:{identity.start}"


def parse_process(text: str) -> Identity:
    boot, _, rest = text.partition(":")
    pid, _, start = rest.partition(":")
    if not (boot and pid.isascii() and pid.isdecimal() and start.isascii() and start.isdecimal()):
        raise InputError(f"{text[:80]!r} is not a process", hint="write BOOT:PID:START, as printed at its start")
    return Identity(boot, int(pid), int(start))


def end(
    name: str,
    folder: AgentDir,
    only: Identity | None,
    *,
    kill: bool,
    keep_jobs: bool = False,
    leave_grace_s: float | None = None,
) -> EndedWorker:
    """End the worker of this name; with `only`, just if it is that process. Its runs end too, unless `keep_jobs`.

    `kill`: also kill runs that an ended worker left. `leave_grace_s`: the grace that the worker gives its runs."""
    from weft.node.agent.shutdown import kill_runs

    pid = folder.lock_holder_pid()
    identity = identify(pid) if pid is not None else None
    if only is not None and identity != only:
        identity = None
    if identity is None and only is None:
        raise NotFound(f"no worker called {name} runs here\n  weft worker --id NAME --stop ends a worker by name")
    timeout_s = END_TIMEOUT_S + (LEAVE_GRACE_S if leave_grace_s is None else leave_grace_s)
    ended = identity is not None and end_process(identity, timeout_s, signal.SIGUSR1 if keep_jobs else signal.SIGTERM)
    killed = kill_runs(folder, END_TIMEOUT_S) if kill and folder.lock_holder_pid() is None else 0
    return EndedWorker(ended, killed)


def end_process(identity: Identity, timeout_s: float, first: int = signal.SIGTERM) -> bool:
    """Send the signal `first`, then SIGKILL after `timeout_s`. Return False if the process had ended before."""
    handle = open_pidfd(identity)
    if handle is None:
        return False
    try:
        for number in (first, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], timeout_s)[0] or not is_alive(identity):
                return True
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)
    raise WeftError(f"process {identity.pid} does not end, even after SIGKILL\n  check whether it waits for a disk")
