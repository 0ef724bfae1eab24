"""A worker that goes on by itself: how it is left behind, and how it is ended, that very one and no other."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.cli import render
from weft.cli.text import plural
from weft.engines.process.shim.process_id import Identity, identify, is_alive, open_pidfd
from weft.errors import InputError, NotFound, Unreachable, WeftError

if TYPE_CHECKING:
    from weft.agent.state_dir import Folder
    from weft.agent.worker import Note

JOIN_S: Final = 60.0
"""How long a worker may take to be taken by the scheduler."""
END_S: Final = 20.0
Told = Callable[["Folder", "Note"], None]


def begin(args: argparse.Namespace, work: Callable[[Told], int]) -> int:
    """Returns in the process that was called once the other has joined, and in that other when it ends.

    Until it has joined, the other has this one's stderr: whatever it finds wrong it says there, as it ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.setsid()
        os.chdir("/")
        return work(_teller(writing))
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        joined = _wait(child, pipe.fileno())
    if joined is None:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if args.json:
        render.print_json(joined)
    else:
        print(f"worker {joined['worker']} has joined, process {joined['process']}")
    return 0


def _teller(writing: int) -> Told:
    """What the one in the background says to the one that was called, until it has joined."""
    left = [writing]

    def told(folder: Folder, note: Note) -> None:
        if not left:
            return
        said: dict[str, Any] = {"words": note.words}
        if note.what == "connected":
            who = identify(os.getpid())
            assert who is not None
            said = {"schema": 1, "worker": folder.state.name, "process": text_of(who), "folder": str(folder.state)}
        os.write(left[0], json.dumps(said).encode() + b"\n")
        if note.what == "connected":
            os.close(left.pop())
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nowhere, number)
            os.close(nowhere)

    return told


def _wait(child: int, pipe: int) -> dict[str, Any] | None:
    """What it says when it has joined; None: it has ended instead."""
    until, heard, words = time.monotonic() + JOIN_S, b"", "the scheduler does not answer"
    while (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 1 << 16)
        if not part:
            return None
        *lines, heard = (heard + part).split(b"\n")
        for line in lines:
            said: dict[str, Any] = json.loads(line)
            if "worker" in said:
                return said
            words = said["words"].partition("\n")[0] or words
    os.kill(child, signal.SIGKILL)  # a child of ours that nobody has waited for: the pid is still its own
    os.waitpid(child, 0)
    raise Unreachable(
        f"the worker has not joined after {JOIN_S:.0f} s: {words}\n  without --background it goes on trying"
    )


# ---- ending one


def text_of(who: Identity) -> str:
    return f"{who.boot}:{who.pid}:{who.start}"


def process(text: str) -> Identity:
    boot, _, rest = text.partition(":")
    pid, _, start = rest.partition(":")
    if not (boot and pid.isascii() and pid.isdecimal() and start.isascii() and start.isdecimal()):
        raise InputError(f"--stop: {text[:80]!r} is not a process", hint="BOOT:PID:START, as --background printed it")
    return Identity(boot, int(pid), int(start))


def end(name: str, folder: Folder, only: str, *, kill: bool, as_json: bool) -> int:
    """The worker of this name; one of the same name that was started since is left alone where `only` says so."""
    from weft.agent.shutdown import kill_runs

    pid = folder.holder()
    who = identify(pid) if pid is not None else None
    if only and who != process(only):
        who = None
    if who is None and not only:
        raise NotFound(f"no worker called {name} runs here\n  weft worker --id NAME --stop ends the one of that name")
    ended = who is not None and end_process(who, END_S)
    killed = kill_runs(folder, END_S) if kill and folder.holder() is None else 0
    if as_json:
        render.print_json({"schema": 1, "worker": name, "ended": ended, "killed": killed})
    else:
        jobs = f"{plural(killed, 'run')} killed" if kill else "its jobs go on until their lease ends"
        render.say(f"worker {name} has {'ended' if ended else 'gone already'}; {jobs}")
    return 0


def end_process(who: Identity, patience_s: float) -> bool:
    """SIGTERM, and SIGKILL where that does not do; False: it had gone."""
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
