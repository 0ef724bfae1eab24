"""Starts and ends workers over ssh. Commands are lists of words, each quoted for the remote shell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from weft.access.endpoints.addresses import Address
from weft.errors import NotPermitted, Refused, Unreachable, WeftError
from weft.node.bringup import record
from weft.node.bringup.hosts import Host
from weft.node.bringup.record import Record, Remote

MAX_CONNECTIONS: Final = 16
"""ssh connections that are open at the same time."""
CONNECT_TIMEOUT_S: Final = 15
COMMAND_TIMEOUT_S: Final = 150.0
"""Limit for a remote command. It includes the minute that a worker has to join."""
NOT_FOUND: Final = 127
"""Exit code of a shell that does not find the program."""
SSH_FAILED: Final = 255
"""Exit code of ssh that could not connect."""
NOT_PERMITTED: Final = 5
"""Exit code of weft without permission: the machine has no token of the scheduler."""
MAX_ERROR_CHARS: Final = 500


class StartResult(NamedTuple):
    """The outcome of starting a worker on one machine."""

    host: Host
    remote: Remote | None = None
    """The worker, once it has joined."""
    error: str = ""
    """Why it has not joined."""


class CallResult(NamedTuple):
    """The outcome of a command of weft on one machine."""

    host: Host
    answer: Mapping[str, Any] = {}
    """The JSON that it printed."""
    error: str = ""
    """Why there is no answer."""


class EndResult(NamedTuple):
    """The outcome of ending one worker."""

    remote: Remote
    ended: bool = False
    """False: the worker had ended before."""
    error: str = ""
    """Why it could not be ended."""


def start_workers(
    hosts: Sequence[Host], scheduler: Address, create_token: Callable[[], str], *, ssh_config: str = ""
) -> list[StartResult]:
    """Start a worker on each machine, several at a time. Each one that joins is recorded at once.

    `create_token` returns a token that lets one worker join; it is called by one thread at a time."""
    config, lock = os.path.abspath(ssh_config) if ssh_config else "", threading.Lock()

    def create_token_alone() -> str:
        with lock:
            return create_token()

    def start(host: Host) -> StartResult:
        try:
            remote = _start_worker(host, config, scheduler, create_token_alone)
        except WeftError as error:
            return StartResult(host, error=_first_line(error))
        with lock:
            record.save((record.load(scheduler) or Record(str(scheduler))).with_remote(remote))
        return StartResult(host, remote)

    with ThreadPoolExecutor(MAX_CONNECTIONS) as pool:
        return list(pool.map(start, hosts))


def call_each(hosts: Sequence[Host], words: Sequence[str], *, ssh_config: str = "") -> list[CallResult]:
    """Run a command of weft on each machine, several at a time. Exit code 1 with an answer counts as an answer."""
    config = os.path.abspath(ssh_config) if ssh_config else ""

    def call(host: Host) -> CallResult:
        try:
            return CallResult(host, _call(_ssh_command(host, config), [host.weft, *words], may_fail=True))
        except WeftError as error:
            return CallResult(host, error=_first_line(error))

    with ThreadPoolExecutor(MAX_CONNECTIONS) as pool:
        return list(pool.map(call, hosts))


def end_workers(remotes: Sequence[Remote]) -> list[EndResult]:
    """End workers with their runs, several at a time."""

    def end(remote: Remote) -> EndResult:
        try:
            return EndResult(remote, ended=_end_worker(remote))
        except WeftError as error:
            return EndResult(remote, error=_first_line(error))

    with ThreadPoolExecutor(MAX_CONNECTIONS) as pool:
        return list(pool.map(end, remotes))


def _start_worker(host: Host, config: str, scheduler: Address, create_token: Callable[[], str]) -> Remote:
    """Start a worker. If the machine has no token of the scheduler, join first.

    The token goes through standard input, where no other user of the machine sees it."""
    ssh = _ssh_command(host, config)
    start = [host.weft, *_worker_command(host, scheduler), "--background", "--json"]
    try:
        found = _call(ssh, start)
    except NotPermitted:
        join = [host.weft, "auth", "join", str(scheduler), "-", "--node", host.id, "--json"]
        _call(ssh, join, f"{create_token()}\n")
        found = _call(ssh, start)
    return Remote(host.id, ssh, host.weft, str(found["process"]))


def _end_worker(remote: Remote) -> bool:
    """End exactly this worker, with its runs. Return False if it had ended before."""
    words = [remote.weft, "worker", "--id", remote.name, "--stop", remote.process, "--kill", "--json"]
    return bool(_call(remote.ssh, words)["ended"])


def _ssh_command(host: Host, config: str = "") -> tuple[str, ...]:
    """Return the command line up to the remote command. ssh never asks for a password, and reads no word as a flag."""
    words = ["ssh", *(["-F", config] if config else []), "-o", "BatchMode=yes",
             "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}", "-T"]  # fmt: skip
    words += ["-p", str(host.port)] if host.port else []
    words += ["-l", host.user] if host.user else []
    return (*words, "--", host.host)


def _worker_command(host: Host, scheduler: Address) -> list[str]:
    flags = dict(host.flags)
    if not scheduler.is_loopback:
        flags.setdefault("addr", f"[{host.host}]:0" if ":" in host.host else f"{host.host}:0")
    words = [word for key, value in flags.items() for word in (f"--{key}", value)]
    return ["worker", "--scheduler", str(scheduler), "--id", host.id, *words]


def _call(ssh: Sequence[str], words: Sequence[str], stdin: str = "", *, may_fail: bool = False) -> dict[str, Any]:
    """Run a command on the machine and return the JSON that it prints. Raise with the reason that ssh or weft gives.

    With `may_fail`, a command that prints JSON may end with exit code 1.
    """
    try:
        done = subprocess.run(
            [*ssh, shlex.join(words)], input=stdin, capture_output=True, text=True, errors="replace",
            timeout=COMMAND_TIMEOUT_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise WeftError("ssh is not installed here\n  install it (Debian: openssh-client)") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"no answer within {COMMAND_TIMEOUT_S:.0f} s") from None
    if done.returncode == SSH_FAILED:
        raise Unreachable(_last_line(done.stderr) or "ssh failed without a message")
    if done.returncode == NOT_FOUND:
        raise Refused(f"{words[0]!r} is not installed there: set weft=PATH in the hosts file")
    try:
        found = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        found = None
    if done.returncode not in ((0, 1) if may_fail else (0,)) or not isinstance(found, dict):
        reason = _read_error(done.stderr) or f"the command ended with exit code {done.returncode}"
        raise (NotPermitted if done.returncode == NOT_PERMITTED else Refused)(reason)
    return found


def _read_error(stderr: str) -> str:
    """Return the message and hint of weft's JSON error; the last line if it is not one."""
    last = _last_line(stderr)
    try:
        error = json.loads(last)["error"]
        return "; ".join(str(error[key]) for key in ("message", "hint") if error[key])[:MAX_ERROR_CHARS]
    except (ValueError, KeyError, TypeError):
        return last


def _first_line(error: WeftError) -> str:
    return str(error).partition("\n")[0]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()[:MAX_ERROR_CHARS]
