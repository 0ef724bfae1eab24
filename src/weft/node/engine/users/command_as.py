"""A command next to a run that uses another account: started by the launcher, with the rights and limits of the run.

A worker has threads, so it does not fork: a small Python reads what to start, drops to the account and becomes it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.node.engine.cgroups import join_group
from weft.node.engine.shim import launch
from weft.node.engine.users.accounts import Account, python_for
from weft.node.engine.users.launcher import drop_to

TERMINAL_SCRIPT: Final = str(Path(__file__).parents[1] / "shim" / "terminal.py")
_SOURCE: Final = str(Path(__file__).resolve().parents[4])
_CODE: Final = "import sys; sys.path.append(sys.argv[1]); from weft.node.engine.users.command_as import main; main()"


async def start(
    spec: Mapping[str, Any], command: Sequence[str], terminal: str
) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """Start a command next to the run with these arguments of a shim; return it and the socket to its terminal.

    `terminal` is the type of its terminal; empty: it has pipes.
    """
    account = Account.from_spec(spec["account"])
    if account is None:
        raise ValueError("the run has no account")
    ours, theirs = socket.socketpair()
    try:
        client = [] if terminal else ["--pipe"]
        argv = [python_for(account), "-I", "-S", TERMINAL_SCRIPT, "--client", str(theirs.fileno()), *client, "--"]
        env = {**spec["env"], **({"TERM": terminal} if terminal else {})}
        what = {**_rights(spec), "argv": [*argv, *command], "env": env, "client": theirs.fileno()}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _CODE, _SOURCE, pass_fds=(theirs.fileno(),), env={}, cwd=os.sep,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(what).encode())
        await process.stdin.drain()
        process.stdin.close()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return process, ours


def _rights(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: spec[key] for key in ("account", "chdir", "umask", "cgroup", "job", "run", "token")}


def main() -> None:
    """Become the command that standard input describes."""
    spec = json.loads(sys.stdin.buffer.read())
    account = Account.from_spec(spec["account"])
    if account is None:
        sys.exit(launch.NOT_EXECUTABLE)
    join_group(spec)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    drop_to(account)
    os.umask(spec["umask"])
    try:
        launch.enter_directory(spec["chdir"])
        os.execve(spec["argv"][0], spec["argv"], spec["env"])
    except (launch.LaunchError, OSError) as error:
        os.write(spec["client"], f"weft: {error}\n".encode(errors="backslashreplace"))
        sys.exit(launch.NOT_EXECUTABLE)
