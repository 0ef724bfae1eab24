"""What became of a run while nobody was looking: read from its files, judged by a table.

| exit.json | claim.json     | shim                | what became of it            |
|-----------|----------------|---------------------|------------------------------|
| there     | -              | -                   | finished, with its own code  |
| -         | none           | -                   | unclaimed: it may be fenced  |
| -         | fenced         | -                   | never started                |
| -         | a shim's       | of another boot     | the machine was rebooted     |
| -         | a shim's       | alive               | runs, or is just starting    |
| -         | a shim's       | dead                | lost                         |
| -         | cannot be read | -                   | being written, just now      |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from weft.local import files
from weft.local.identity import Identity
from weft.local.reports import RunExited, RunStarted, read_exited, read_identity, read_started

Fate = Literal["finished", "unclaimed", "fenced", "reboot", "alive", "lost", "unclear"]


@dataclass(frozen=True, slots=True)
class Evidence:
    exited: RunExited | None = None
    started: RunStarted | None = None
    claimed: bool = False
    claim: dict[str, Any] | None = None
    written_before_boot: bool = False

    @property
    def shim(self) -> Identity | None:
        if self.started is not None:
            return self.started.shim
        return read_identity((self.claim or {}).get("shim"))

    @property
    def token(self) -> str:
        return str((self.claim or {}).get("token", ""))


def look(folder: str, booted_at: float) -> Evidence:
    """Claim before exit: a claim that has just become an exit record is then still seen."""
    claim = files.read_object(f"{folder}/{files.CLAIM}")
    claimed_at = _written_at(f"{folder}/{files.CLAIM}")
    exited = files.read_object(f"{folder}/{files.EXIT}")
    started = files.read_object(f"{folder}/{files.STARTED}")
    return Evidence(
        read_exited(exited) if exited else None,
        read_started(started) if started else None,
        claim is not None or claimed_at is not None,
        claim or (started and {"token": started.get("token", "")}) or None,
        claimed_at is not None and claimed_at < booted_at,
    )


def fate(evidence: Evidence, boot: str, is_alive: Callable[[Identity], bool]) -> Fate:
    if evidence.exited is not None:
        return "finished"
    shim = evidence.shim
    if shim is not None:
        if shim.boot != boot:
            return "reboot"
        return "alive" if is_alive(shim) else "lost"
    if evidence.claim is not None and evidence.claim.get("fenced"):
        return "fenced"
    if not evidence.claimed:
        return "unclaimed"
    return "reboot" if evidence.written_before_boot else "unclear"


def fence(folder: str) -> bool:
    """Make sure that no shim starts this run any more; False: one has claimed it."""
    files.make_dirs(folder)
    try:
        handle = os.open(f"{folder}/{files.CLAIM}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        files.write_all(handle, files.to_json({"fenced": True}))
    finally:
        os.close(handle)
    return True


def _written_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
