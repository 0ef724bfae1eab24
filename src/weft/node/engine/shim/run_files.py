"""The files of a run: their names, and writes that never expose half a file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from weft.inputs.atomic import write_all

SPEC: Final = "spec.json"
CLAIM: Final = "claim.json"
"""Decides whether the run starts: a shim creates it to start the run, an engine creates it to prevent that.

A shim renames its claim to `started.json` and then to `exit.json`: one record, with disk space reserved at the start.
"""
STARTED: Final = "started.json"
STOP: Final = "stop.json"
SUSPENDED: Final = "suspended"
"""Exists while a user has suspended the run."""
NODE_STOP: Final = "node-stop.json"
"""Marks that the node began to stop during the run: see `weft.node.engine.recovery.node_stop`."""
EXIT: Final = "exit.json"
LOG: Final = "output.log"
OLD_LOG: Final = "output.log.1"
"""Earlier output, on a file system where the start of a log cannot be removed in place."""
ERROR_LOG: Final = "error.log"
"""A link to the user's own file for standard error. `LOG` is such a link if the user names a file for the output."""
BEGIN_SUFFIX: Final = ".begin"
"""The file with this suffix holds where the output of the run begins in the user's own file; none: at 0."""
LOG_READER: Final = "log-reader"
"""The offset in the log of a reader that lags far behind."""
PREEMPT: Final = "preempt"
DONE: Final = "done"
SAVED_AT_LIMIT: Final = "saved-at-limit"
"""The reason of a stop at the time limit of a run with `--requeue` that has saved its work."""
PARAMS: Final = "params.json"
HOSTFILE: Final = "hostfile"
CHECKPOINTS: Final = "checkpoints"
UNSENT: Final = "unsent.json"
"""The report of a run that had no receiver, among its checkpoints."""
WORK: Final = "work"
"""The folder in a run's directory that belongs to the run's user, on a node that runs jobs as their submitters."""
WEAVE: Final = "weave.json"
"""The weave of the run, its place there and the size, as `weft.train` reads them; an empty object: not woven."""
REPLICA: Final = "replica.json"
READY: Final = "ready"
"""Made by a replica that says itself when it can serve."""
"""The port and the probes of a replica of a service."""
NOTIFY_SOCKET: Final = "bell.sock"


def run_dir(jobs_dir: str, job: str, run: int) -> str:
    return f"{jobs_dir}/{job}/{run}"


def read_begin(log: str) -> int:
    """Return where the output of a run begins in its log."""
    try:
        with open(f"{log}{BEGIN_SUFFIX}", "rb") as file:
            text = file.read(20)
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def make_run_dir(path: str) -> None:
    """Create the directories of a run and of its job, readable by their owner only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def to_json(value: Any) -> bytes:
    return _encode(value).encode("ascii")


def write_new(path: str, content: bytes) -> None:
    """Write in place: for files that are read only after a later file exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(handle, content)
    finally:
        os.close(handle)


def forget_environment(spec: Mapping[str, Any]) -> None:
    """Rewrite the spec of a run in the current directory without its variables, except those that name its GPUs."""
    kept = {name: value for name, value in spec["env"].items() if name.startswith(("WEFT_GPU", "CUDA_MPS"))}
    with contextlib.suppress(OSError):
        write_new(f"{SPEC}.new", to_json({**spec, "env": kept}))
        os.rename(f"{SPEC}.new", SPEC)


def read_object(path: str) -> dict[str, Any] | None:
    """Return the JSON object in a file, without reserved space after it; None if missing or invalid."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().rstrip(b"\0"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
