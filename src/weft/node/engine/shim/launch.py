"""Start the command of a run: argv without a shell, inheriting only the given environment and streams."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.node.engine.gpu import locks

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_CANNOT_CATCH: Final = {signal.SIGKILL, signal.SIGSTOP}
Streams = tuple[str, int, int]
"""The file for standard input (empty: none), and descriptors of standard output and standard error."""
_ALL_SIGNALS: Final = [number for number in signal.valid_signals() if number not in _CANNOT_CATCH]


class LaunchError(Exception):
    """The command cannot be started. Carries the exit code to record, if any, a reason and an explanation."""

    def __init__(self, code: int | None, why: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.why, self.detail = code, why, detail


def lock_gpus(arguments: Mapping[str, Any] | None) -> list[int]:
    """Lock the GPUs of a run that several schedulers share; return the descriptors. Without arguments, lock none."""
    try:
        return locks.lock_gpus(**arguments) if arguments is not None else []
    except locks.GpuTaken as error:
        raise LaunchError(None, locks.GPU_TAKEN, str(error)) from None


def launch(
    argv: list[str], env: Mapping[str, str], chdir: str, streams: Streams, umask: int, inherited: Iterable[int] = ()
) -> int:
    """Start the command in a new session, and return its pid. The command keeps the `inherited` descriptors open.

    Also changes the caller's working directory to `chdir`.
    """
    enter_directory(chdir)
    program = find_program(argv[0], env.get("PATH", DEFAULT_PATH))
    stdin, out, err = streams
    check_stdin(stdin)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, stdin or os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    actions += [(os.POSIX_SPAWN_DUP2, handle, handle) for handle in inherited]  # clears close-on-exec
    previous_umask = os.umask(umask)
    try:
        return os.posix_spawn(
            program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_ALL_SIGNALS
        )
    except OSError as error:
        raise describe_failure(program, error) from None
    finally:
        os.umask(previous_umask)


def enter_directory(path: str) -> None:
    """Make this the working directory, or raise LaunchError."""
    try:
        os.chdir(path)
    except OSError as error:
        detail = f"cannot use {path!r} as working directory: {error.strerror}"
        raise LaunchError(NOT_EXECUTABLE, "bad-directory", detail) from None


def check_stdin(path: str) -> None:
    """Raise LaunchError if the file for standard input is named, but cannot be read."""
    if path and not os.access(path, os.R_OK):
        detail = "the standard input of the job is no longer stored: submit the job again"
        raise LaunchError(NOT_EXECUTABLE, "bad-input", detail)


def reset_signals() -> None:
    """Give every signal its default action, and block none."""
    for number in _ALL_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def find_program(program: str, path: str) -> str:
    """Return the path of the first executable with this name in `path`."""
    if "/" in program:
        return program
    candidates = [f"{folder or '.'}/{program}" for folder in path.split(":")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    denied = next((candidate for candidate in candidates if os.path.isfile(candidate)), "")
    if denied:
        raise LaunchError(NOT_EXECUTABLE, "not-executable", f"{denied!r} is not executable: check its permissions")
    raise LaunchError(NOT_FOUND, "not-found", f"program {program!r} not found in PATH={path!r}")


def describe_failure(program: str, error: OSError) -> LaunchError:
    """Return the error for a program that could not be executed."""
    if error.errno == errno.ENOENT and os.path.exists(program):
        detail = f"{program!r} exists, but the interpreter named in its first line, or its loader, does not"
        return LaunchError(NOT_FOUND, "not-found", detail)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return LaunchError(NOT_FOUND, "not-found", f"program {program!r} not found")
    if error.errno == errno.ENOEXEC:
        detail = f"{program!r} is not a program: a script needs a first line such as '#!/bin/sh'"
        return LaunchError(NOT_EXECUTABLE, "not-executable", detail)
    return LaunchError(NOT_EXECUTABLE, "not-executable", f"cannot execute {program!r}: {error.strerror}")
