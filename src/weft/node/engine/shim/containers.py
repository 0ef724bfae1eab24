"""The container of a run, as its shim sees it: the supervisor is the leader, and the shim cleans up after it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from weft.node.engine.container import record
from weft.node.engine.container.script import script
from weft.node.engine.shim.launch import LaunchError

NO_CONTAINER: Final = 125
"""The exit code of podman and docker for a container that did not start."""


def outer_directory(spec: Mapping[str, Any]) -> str:
    """Return where the leader runs. The working directory of a container may exist in its image only."""
    chdir: str = spec["chdir"] or spec["dir"]
    return spec["dir"] if spec.get("container") and not os.path.isdir(chdir) else chdir


def check_account(spec: Mapping[str, Any]) -> None:
    """Raise LaunchError for a container of another user: a runtime with the rights of this process would give them to
    the run."""
    if spec["container"] and spec["account"] is not None:
        detail = (
            "this worker runs jobs as their submitters, and those cannot use containers: start a worker with --run-as"
        )
        raise LaunchError(NO_CONTAINER, "no-runtime", f"{detail} worker, or as that user")


def start_removal(folder: str, log: int) -> bool:
    """Start the process that removes the container of a run, which gives up after a few minutes.

    Return False if there is none: its supervisor has removed it, unless that was killed.
    """
    if not os.path.exists(f"{folder}/{record.RECORD}"):
        return False
    command = script("removal", folder)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    os.posix_spawn(command[0], command, {}, file_actions=actions, setsid=True, setsigmask=())
    return True


def read_reason(spec: Mapping[str, Any]) -> tuple[str, str]:
    """Return why the container failed, and the explanation, as its supervisor recorded them; empty: not its fault."""
    found = record.read_result(spec["dir"]) if spec["container"] else {}
    return str(found.get("why", "")), str(found.get("detail", ""))
