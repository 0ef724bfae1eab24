"""What a workspace keeps beside the scheduler's sockets: locks, and whose turn it is on a GPU."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.inputs import locks
from weft.workspace.config import Config

LOCK_S: Final = 30.0
HINT: Final = "try again when it is done"


def mark(config: Config) -> str:
    """A short name that no other workspace has."""
    return hashlib.sha256(config.group.encode(errors="surrogateescape")).hexdigest()[:12]


def lock_path(runtime: Path, config: Config, what: str) -> Path:
    return runtime / f"{mark(config)}.{what}"


@contextlib.contextmanager
def alone(runtime: Path, config: Config) -> Iterator[None]:
    """One command at a time starts or stops the tasks of a workspace."""
    what = "another command works on this workspace"
    with locks.locked(lock_path(runtime, config, "lock"), what, HINT, wait_s=LOCK_S):
        yield


@contextlib.contextmanager
def alone_with_gpus(runtime: Path) -> Iterator[None]:
    """One command at a time sees to it that there are GPUs."""
    with locks.locked(runtime / "gpus.lock", "another command declares GPUs", HINT, wait_s=LOCK_S):
        yield


def take(runtime: Path, config: Config, what: str) -> int | None:
    """Return a lock that is held until its process ends, or None if another process holds it."""
    try:
        return locks.acquire(lock_path(runtime, config, what), f"another process holds the {what} lock")
    except locks.Locked:
        return None


def is_held(runtime: Path, config: Config, what: str) -> bool:
    return locks.is_locked(lock_path(runtime, config, what))
