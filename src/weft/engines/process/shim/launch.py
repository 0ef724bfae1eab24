"""Starts the command of a run: argv only, no shell, nothing inherited but what it is given."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from typing import Final

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_CANNOT_CATCH: Final = {signal.SIGKILL, signal.SIGSTOP}
_ALL_SIGNALS: Final = [number for number in signal.valid_signals() if number not in _CANNOT_CATCH]


class Refused(Exception):
    """The command cannot be started: as which exit code that counts, and why."""

    def __init__(self, code: int, why: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.why, self.detail = code, why, detail


def launch(argv: list[str], env: Mapping[str, str], chdir: str, log: int, umask: int) -> int:
    """Start it in a session of its own, both streams into `log`; its pid. The caller moves to `chdir` with it."""
    try:
        os.chdir(chdir)
    except OSError as error:
        raise Refused(NOT_EXECUTABLE, "bad-directory", f"cannot work in {chdir!r}: {error.strerror}") from None
    program = find(argv[0], env.get("PATH", DEFAULT_PATH))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    before = os.umask(umask)
    try:
        return os.posix_spawn(
            program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_ALL_SIGNALS
        )
    except OSError as error:
        raise _refusal(program, error) from None
    finally:
        os.umask(before)


def find(program: str, path: str) -> str:
    """Where a program is, as its own PATH says; the first that may be executed."""
    if "/" in program:
        return program
    candidates = [f"{folder or '.'}/{program}" for folder in path.split(":")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    denied = next((candidate for candidate in candidates if os.path.isfile(candidate)), "")
    if denied:
        raise Refused(NOT_EXECUTABLE, "not-executable", f"{denied!r} may not be executed: check its permissions")
    raise Refused(NOT_FOUND, "not-found", f"no program {program!r} in PATH={path!r}")


def _refusal(program: str, error: OSError) -> Refused:
    if error.errno == errno.ENOENT and os.path.exists(program):
        detail = f"{program!r} is there, but the interpreter it names in its first line, or its loader, is not"
        return Refused(NOT_FOUND, "not-found", detail)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Refused(NOT_FOUND, "not-found", f"no program {program!r}")
    if error.errno == errno.ENOEXEC:
        detail = f"{program!r} is no program: a script needs a first line such as '#!/bin/sh'"
        return Refused(NOT_EXECUTABLE, "not-executable", detail)
    return Refused(NOT_EXECUTABLE, "not-executable", f"cannot execute {program!r}: {error.strerror}")
