"""The port for small files that all of several servers need, and the parts of a controller that leads them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weft.history.journal import Journal
from weft.history.journal.postgres.blobs import BlobTable
from weft.scheduling.core.scheduler import Scheduler


class SharedFiles(Protocol):
    """Receives the names of changed files from their writers."""

    def changed(self, path: Path) -> None:
        """Copy the file soon, without waiting for it."""

    def store(self, path: Path) -> None:
        """Return once the file is in the database, or raise. Call it in a thread."""

    def removed(self, *paths: Path) -> None:
        """Remove files and folders from the database soon."""


class FolderOnly:
    """For a server that is alone: no other needs its files."""

    def changed(self, path: Path) -> None:
        """Do nothing."""

    def store(self, path: Path) -> None:
        """Do nothing."""

    def removed(self, *paths: Path) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class LedParts:
    """The parts of a controller that depend on the lead."""

    journal: Journal
    files: SharedFiles
    writer: Executor
    """Writes the journal."""
    leads: Callable[[], bool]
    """Returns whether the server may answer calls."""
    epoch: int
    blobs: BlobTable | None
    """The uploaded files; None: in a folder that the servers share."""
    scheduler: Scheduler | None
    """A scheduler with the state of the journal; None: replay it."""
