"""The launcher: starts the command of a run as another user.

A child of the shim drops to the account first. Everything that touches the user's files comes after that: the working
directory, standard input and the program.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

from weft.node.engine.shim import launch
from weft.node.engine.shim.launch import LaunchError, Streams
from weft.node.engine.users.accounts import Account

_MAX_ERROR_BYTES: Final = 8192
IDLE: Final = "idle"
"""SCHED_IDLE of the kernel."""


def start(account: Account | None, spec: Mapping[str, Any], folder: str, streams: Streams, inherited: list[int]) -> int:
    """Start the command of a run in `folder`, and return its pid. None: as the user of this process.

    The current directory is that of the run. The scheduler `idle` lets all other processes go first.
    """
    pid = _start(account, spec, folder, streams, inherited)
    if spec["scheduler"] == IDLE:  # glibc does not let posix_spawn set it; what the command starts inherits it
        with suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    return pid


def _start(
    account: Account | None, spec: Mapping[str, Any], folder: str, streams: Streams, inherited: list[int]
) -> int:
    argv, env, umask = spec["argv"], spec["env"], spec["umask"]
    if account is None:
        return launch.launch(argv, env, folder, streams, umask, inherited)
    if not spec["terminal"]:
        return launch_as(account, argv, env, folder, streams, umask, inherited)
    from weft.node.engine.shim import terminal  # few runs have one

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # in root's folder: the worker, which connects as root, must not follow what a user could put in its place
        listener.bind(terminal.SOCKET)
        listener.listen(1)
        env = {**env, terminal.LISTENER_VARIABLE: str(listener.fileno())}
        return launch_as(account, argv, env, folder, streams, umask, [*inherited, listener.fileno()])


def launch_as(
    account: Account,
    argv: list[str],
    env: Mapping[str, str],
    chdir: str,
    streams: Streams,
    umask: int,
    inherited: Iterable[int] = (),
) -> int:
    """Start the command as `account` in a new session, and return its pid. Otherwise like `launch.launch`."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise LaunchError(launch.NOT_EXECUTABLE, "not-executable", f"cannot fork: {error.strerror}") from None
    if not pid:
        _start_in_child(account, argv, env, chdir, streams, umask, inherited, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        failure = pipe.read(_MAX_ERROR_BYTES)
    if failure:
        os.waitpid(pid, 0)
        raise LaunchError(*json.loads(failure))
    return pid


def drop_to(account: Account) -> None:
    """Give up all rights of this process except the account's, for good."""
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise PermissionError(1, f"cannot drop to user {account.uid}")


def _start_in_child(
    account: Account,
    argv: list[str],
    env: Mapping[str, str],
    chdir: str,
    streams: Streams,
    umask: int,
    inherited: Iterable[int],
    writing: int,
) -> NoReturn:
    try:
        os.setsid()
        stdin, out, err = streams
        for handle, target in ((out, 1), (err, 2)):
            os.dup2(handle, target)
        for handle in inherited:
            os.set_inheritable(handle, True)
        drop_to(account)
        os.umask(umask)
        launch.enter_directory(chdir)
        launch.check_stdin(stdin)
        os.dup2(os.open(stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY), 0)
        program = launch.find_program(argv[0], env.get("PATH", launch.DEFAULT_PATH))
        launch.reset_signals()
        try:
            os.execve(program, argv, env)
        except OSError as error:
            raise launch.describe_failure(program, error) from None
    except LaunchError as failure:
        _report(writing, failure)
    except BaseException as error:  # this child must end here, whatever happens
        detail = f"cannot start the command as user {account.uid}: {error}"
        _report(writing, LaunchError(launch.NOT_EXECUTABLE, "not-executable", detail))
    finally:
        os._exit(launch.NOT_EXECUTABLE)


def _report(writing: int, failure: LaunchError) -> None:
    os.write(writing, json.dumps([failure.code, failure.why, failure.detail[:1000]]).encode())
