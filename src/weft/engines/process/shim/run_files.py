"""The files of a run: their names, and how they are written so that nobody ever reads half of one."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final

SPEC: Final = "spec.json"
CLAIM: Final = "claim.json"
"""Whoever creates it decides: a shim that the run starts, an engine that it never will.

A shim's becomes `started.json` and then `exit.json`: one record, whose room on the disk is reserved at the start.
"""
STARTED: Final = "started.json"
STOP: Final = "stop.json"
NODE_STOP: Final = "node-stop.json"
"""The node was told to stop while the run was on it: see `weft.engines.process.recovery.node_stop`."""
EXIT: Final = "exit.json"
LOG: Final = "output.log"
OLD_LOG: Final = "output.log.1"
PREEMPT: Final = "preempt"
DONE: Final = "done"
PARAMS: Final = "params.json"
HOSTFILE: Final = "hostfile"
CHECKPOINTS: Final = "checkpoints"
BELL: Final = "bell.sock"


def run_dir(jobs_dir: str, job: str, run: int) -> str:
    return f"{jobs_dir}/{job}/{run}"


def make_dirs(path: str) -> None:
    """The directory of a run, and that of its job: for their owner alone."""
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


def write_atomic(path: str, content: bytes) -> None:
    """Write beside, then rename: the file is there whole or not at all."""
    beside = f"{path}.tmp"
    write_new(beside, content)
    os.rename(beside, path)


def write_new(path: str, content: bytes) -> None:
    """For files that nobody looks for before something else is there."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(handle, content)
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def read_object(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None: no file, or something else in it. Reserved room behind it does not count."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().rstrip(b"\0"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
