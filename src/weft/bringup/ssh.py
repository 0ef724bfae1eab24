"""What is done on a machine over ssh: commands as lists of words, each quoted for the shell at the other end."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from weft.bringup.hosts import Host
from weft.bringup.record import Remote
from weft.endpoints.addresses import Address
from weft.errors import NotPermitted, Refused, Unreachable, WeftError

CONNECT_S: Final = 15
CALL_S: Final = 150.0
"""For a command there; a worker has a minute to join."""
NOT_FOUND: Final = 127
SSH_FAILED: Final = 255
NOT_PERMITTED: Final = 5
LONGEST: Final = 500


class Joined(NamedTuple):
    """What came of a machine."""

    host: Host
    remote: Remote | None = None
    words: str = ""
    """Why not."""


def ssh_words(host: Host, config: str = "") -> tuple[str, ...]:
    """Up to the command: nobody is asked for a password, and nothing can be taken for a flag."""
    words = ["ssh", *(["-F", config] if config else []), "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}",
             "-T"]  # fmt: skip
    words += ["-p", str(host.port)] if host.port else []
    words += ["-l", host.user] if host.user else []
    return (*words, "--", host.host)


def begin(host: Host, config: str, scheduler: Address, token: Callable[[], str]) -> Remote:
    """Starts a worker there; where it is not let in yet, it joins first. The token is told through standard input,
    where nobody else sees it."""
    ssh = ssh_words(host, config)
    start = [host.weft, *worker_words(host, scheduler), "--background", "--json"]
    try:
        found = _call(ssh, start)
    except NotPermitted:
        join = [host.weft, "auth", "join", str(scheduler), "-", "--node", host.id, "--json"]
        _call(ssh, join, f"{token()}\n")
        found = _call(ssh, start)
    return Remote(host.id, ssh, host.weft, str(found["process"]))


def worker_words(host: Host, scheduler: Address) -> list[str]:
    flags = dict(host.flags)
    if not scheduler.is_loopback:
        flags.setdefault("addr", f"[{host.host}]:0" if ":" in host.host else f"{host.host}:0")
    said = [word for key, value in flags.items() for word in (f"--{key}", value)]
    return ["worker", "--scheduler", str(scheduler), "--id", host.id, *said]


def end(remote: Remote) -> bool:
    """That very worker, with what it runs; False: it had gone."""
    words = [remote.weft, "worker", "--id", remote.name, "--stop", remote.process, "--kill", "--json"]
    return bool(_call(remote.ssh, words)["ended"])


def _call(ssh: Sequence[str], words: Sequence[str], stdin: str = "") -> dict[str, Any]:
    """What the command there prints; raises what went wrong, in the words of whoever knows."""
    try:
        done = subprocess.run(
            [*ssh, shlex.join(words)], input=stdin, capture_output=True, text=True, errors="replace", timeout=CALL_S,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise WeftError("there is no ssh here\n  install it (Debian: openssh-client)") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"no answer within {CALL_S:.0f} s") from None
    if done.returncode == SSH_FAILED:
        raise Unreachable(_last_line(done.stderr) or "ssh failed without a word")
    if done.returncode == NOT_FOUND:
        raise Refused(f"no {words[0]!r} there: weft=PATH in the hosts file says where it is")
    try:
        found = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        found = None
    if done.returncode or not isinstance(found, dict):
        words = _refusal(done.stderr) or f"it ended with code {done.returncode}"
        raise (NotPermitted if done.returncode == NOT_PERMITTED else Refused)(words)
    return found


def _refusal(stderr: str) -> str:
    """Weft's own words, where they are Weft's."""
    last = _last_line(stderr)
    try:
        error = json.loads(last)["error"]
        return "; ".join(str(error[key]) for key in ("message", "hint") if error[key])[:LONGEST]
    except (ValueError, KeyError, TypeError):
        return last


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()[:LONGEST]
