"""What a workspace keeps beside the scheduler's sockets: locks, and whose turn it is on a GPU."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.errors import Refused
from weft.workspace.config import Config

LOCK_S: Final = 30.0


def mark(config: Config) -> str:
    """A short name that no other workspace has."""
    return hashlib.sha256(config.group.encode(errors="surrogateescape")).hexdigest()[:12]


def lock_path(runtime: Path, config: Config, what: str) -> Path:
    return runtime / f"{mark(config)}.{what}"


@contextlib.contextmanager
def alone(runtime: Path, config: Config) -> Iterator[None]:
    """One command at a time starts or stops the tasks of a workspace."""
    with _locked(lock_path(runtime, config, "lock"), "another command works on this workspace"):
        yield


@contextlib.contextmanager
def alone_with_gpus(runtime: Path) -> Iterator[None]:
    """One command at a time sees to it that there are GPUs."""
    with _locked(runtime / "gpus.lock", "another command declares GPUs"):
        yield


@contextlib.contextmanager
def _locked(path: Path, why_not: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_S
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Refused(f"{why_not}\n  try again when it is done") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def take(runtime: Path, config: Config, what: str) -> int | None:
    """A lock that is held until its process ends; None: somebody has it."""
    handle = os.open(lock_path(runtime, config, what), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_held(runtime: Path, config: Config, what: str) -> bool:
    handle = take(runtime, config, what)
    if handle is not None:
        os.close(handle)
    return handle is None
