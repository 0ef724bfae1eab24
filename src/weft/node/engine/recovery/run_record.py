"""The record of a run on disk, and the run's fate according to it.

A shim creates the record as `claim.json`, then renames it to `started.json` and to `exit.json`.

| record            | its shim        | fate of the run                |
|-------------------|-----------------|--------------------------------|
| exit.json         | -               | finished                       |
| none              | -               | unclaimed: it may be fenced    |
| claim, fenced     | -               | never started                  |
| claim or started  | of another boot | ended by a reboot              |
| claim or started  | alive           | running or starting            |
| claim or started  | dead            | lost                           |
| - with an exit    | not alive       | finished, but not renamed      |
| unreadable        | -               | unclear: being written         |
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from weft.inputs.atomic import write_all
from weft.node.engine.events import RunExited, RunStarted, read_exited, read_identity, read_started
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import Identity

Fate = Literal["finished", "unclaimed", "fenced", "reboot", "alive", "lost", "unclear"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The state of a run according to its files."""

    exited: RunExited | None = None
    """From `exit.json`."""
    record: dict[str, Any] | None = None
    """From `started.json`, else `claim.json`."""
    claimed: bool = False
    """A record exists, even if it is unreadable."""
    written_before_boot: bool = False

    @property
    def shim(self) -> Identity | None:
        return read_identity((self.record or {}).get("shim"))

    @property
    def started(self) -> RunStarted | None:
        return read_started(self.record or {})

    @property
    def ended(self) -> RunExited | None:
        """The exit, if either file has it."""
        return self.exited or read_exited(self.record or {})

    @property
    def token(self) -> str:
        return str((self.record or {}).get("token", ""))


def read_evidence(folder: str, booted_at: float) -> Evidence:
    """Read the files in the order of the renames, so that a record renamed meanwhile is still found."""
    claim, started, exited = (
        run_files.read_object(f"{folder}/{name}") for name in (run_files.CLAIM, run_files.STARTED, run_files.EXIT)
    )
    written_at = _written_at(f"{folder}/{run_files.STARTED}") or _written_at(f"{folder}/{run_files.CLAIM}")
    return Evidence(
        read_exited(exited) if exited else None,
        started or claim,
        bool(started or claim or written_at),
        written_at is not None and written_at < booted_at,
    )


def judge(evidence: Evidence, boot: str, is_alive: Callable[[Identity], bool]) -> Fate:
    """Return the fate of a run by the table above."""
    if evidence.exited is not None:
        return "finished"
    shim = evidence.shim
    if shim is not None:
        if shim.boot == boot and is_alive(shim):
            return "alive"
        if evidence.ended is not None:
            return "finished"
        return "lost" if shim.boot == boot else "reboot"
    if evidence.record is not None and evidence.record.get("fenced"):
        return "fenced"
    if not evidence.claimed:
        return "unclaimed"
    return "reboot" if evidence.written_before_boot else "unclear"


def fence(folder: str) -> bool:
    """Prevent any shim from starting this run; return False if one has claimed it."""
    run_files.make_run_dir(folder)
    try:
        handle = os.open(f"{folder}/{run_files.CLAIM}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with contextlib.suppress(OSError):  # on a full disk the empty file is enough
        write_all(handle, run_files.to_json({"fenced": True}))
    os.close(handle)
    # a shim that has started the run has renamed its claim
    if any(os.path.exists(f"{folder}/{name}") for name in (run_files.STARTED, run_files.EXIT)):
        os.unlink(f"{folder}/{run_files.CLAIM}")
        return False
    return True


def try_fence(folder: str) -> bool:
    """Do the same as `fence`; return False as well if nothing can be written, for example on a full disk."""
    try:
        return fence(folder)
    except OSError:
        return False


def _written_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
