"""Locks of a workspace, in the runtime folder of the scheduler."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.inputs import locks
from weft.workspace.config import Config

LOCK_TIMEOUT_S: Final = 30.0
HINT: Final = "try again when it is done"


def workspace_id(config: Config) -> str:
    """Return a short name that is unique to the workspace."""
    return hashlib.sha256(config.group.encode(errors="surrogateescape")).hexdigest()[:12]


def lock_path(runtime: Path, config: Config, what: str) -> Path:
    return runtime / f"{workspace_id(config)}.{what}"


@contextlib.contextmanager
def tasks_locked(runtime: Path, config: Config) -> Iterator[None]:
    """Let one command at a time start or stop the tasks of a workspace."""
    what = "another command changes this workspace"
    with locks.locked(lock_path(runtime, config, "lock"), what, HINT, wait_s=LOCK_TIMEOUT_S):
        yield


@contextlib.contextmanager
def gpus_locked(runtime: Path) -> Iterator[None]:
    """Let one command at a time declare GPUs."""
    with locks.locked(runtime / "gpus.lock", "another command declares GPUs", HINT, wait_s=LOCK_TIMEOUT_S):
        yield


def try_lock(runtime: Path, config: Config, what: str) -> int | None:
    """Return the handle of a lock that this process holds until it ends; None if another process holds it."""
    try:
        return locks.acquire(lock_path(runtime, config, what), f"another process holds the {what} lock")
    except locks.Locked:
        return None


def is_held(runtime: Path, config: Config, what: str) -> bool:
    return locks.is_locked(lock_path(runtime, config, what))
