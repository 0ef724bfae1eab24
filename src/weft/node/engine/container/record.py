"""The files of a container in the directory of its run, by which shim, engine and `weft exec` find it."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final, NamedTuple

from weft.inputs.atomic import write_atomic
from weft.node.engine.shim import run_files

RECORD: Final = "container.json"
"""Exists from before the container is created until it is removed."""
RESULT: Final = "container-exit.json"
"""The reason why the container failed, beyond its exit code."""
PID_FILE: Final = "container.pid"


class ContainerRecord(NamedTuple):
    runtime: str
    program: str
    name: str
    pid: int = 0
    """The first process of the container, as this node numbers it; 0: it has not started yet."""
    start: int = 0
    """The start time of that process: a pid may be used again."""
    init: bool = False
    """The first process is an init, which forwards what it gets: signals to the others must not go to it too."""


def write_record(folder: str, record: ContainerRecord) -> None:
    write_atomic(f"{folder}/{RECORD}", run_files.to_json(record._asdict()))


def read_record(folder: str) -> ContainerRecord | None:
    """Return the container of a run; None: it has none, or none any more."""
    found = run_files.read_object(f"{folder}/{RECORD}")
    if found is None:
        return None
    try:
        return ContainerRecord(**{name: found[name] for name in ContainerRecord._fields})
    except KeyError:
        return None


def read_pid_file(folder: str) -> int:
    """Return the pid of the container's first process, as the runtime wrote it; 0: none yet."""
    try:
        with open(f"{folder}/{PID_FILE}", "rb") as file:
            text = file.read(20).strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def forget_record(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/{RECORD}")


def write_result(folder: str, **result: Any) -> None:
    with contextlib.suppress(OSError):
        run_files.write_new(f"{folder}/{RESULT}", run_files.to_json(result))


def read_result(folder: str) -> dict[str, Any]:
    return run_files.read_object(f"{folder}/{RESULT}") or {}
