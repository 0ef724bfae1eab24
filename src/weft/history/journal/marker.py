"""The marker of a journal: how many facts it must have, in a file of the server's folder.

Without it, a journal that was deleted, cut off or replaced by an older copy would look like a new or a whole one.

The figures are written in place once the facts are on disk, and nothing waits for them: after a power cut they may be
too low, never too high.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from weft.errors import JournalError, NotFound
from weft.history.journal import for_process
from weft.history.journal.base import Journal, Store
from weft.inputs.atomic import write_atomic
from weft.model import Fact

FILE: Final = "journal.mark"
CLOSED: Final = -1


@dataclass(frozen=True)
class Mark:
    facts: int
    """The journal has at least as many."""
    highest_id: int
    """No job had a higher number."""
    name: str
    url: str

    @classmethod
    def of(cls, journal: Journal, highest_id: int) -> Self:
        return cls(len(journal), highest_id, journal.name, for_process(journal.url)[0])

    def figures(self) -> bytes:
        return b"%020d %020d" % (self.facts, self.highest_id)


@dataclass(frozen=True)
class Restored:
    """The outcome of `Marker.restore`."""

    is_whole: bool
    """Nothing is missing, as far as the marker knows."""
    facts: int
    lacking: int
    """The facts that the journal had, and has no more, as far as the marker knows."""
    backup_of: str = ""
    """When the backup was made that replaced the journal; empty: the journal itself was kept."""

    def describe(self) -> list[str]:
        """Return what happened and what is missing, in lines."""
        if self.backup_of:
            said = (
                f"restored the backup of {self.backup_of}: {self.facts:,} facts; the damaged one is kept as *.damaged"
            )
        else:
            said = f"kept the journal: all of its {self.facts:,} facts can be read"
        if self.is_whole:
            return [said]
        count = f"{self.lacking:,} later facts are missing: " if self.lacking else ""
        return [said, f"{count}jobs submitted since then that never ran are lost, and so are changes to jobs"]


class Marker:
    """The marker in a folder. `begin` opens it for `advance`."""

    def __init__(self, folder: Path) -> None:
        self._path, self._fd, self._highest_id = folder / FILE, CLOSED, 0

    def read(self) -> Mark | None:
        """Return the marker; None if there is none, or a power cut has left only a part of it."""
        try:
            facts, highest_id, name, url = self._path.read_text().rstrip("\n").split(" ", 3)
            return Mark(int(facts), int(highest_id), name, url)
        except (OSError, ValueError):
            return None

    def write(self, mark: Mark) -> None:
        write_atomic(self._path, mark.figures() + f" {mark.name} {mark.url}\n".encode(), durable=True)

    def begin(self, journal: Journal, highest_id: int) -> int:
        """Write the marker of a journal that is what it must be, and keep the file open. Return the highest number of a
        job so far."""
        before = self.read()
        self._highest_id = highest_id if before is None else max(highest_id, before.highest_id)
        self.write(Mark.of(journal, self._highest_id))
        self.close()
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        return self._highest_id

    def advance(self, facts: int, highest_id: int) -> None:
        """Write that the journal has this many facts. They must be on disk."""
        with suppress(OSError):  # a marker that lags behind is no fault
            os.pwrite(self._fd, Mark(facts, max(highest_id, self._highest_id), "", "").figures(), 0)

    def close(self) -> None:
        if self._fd != CLOSED:
            os.close(self._fd)
            self._fd = CLOSED

    # ---- comparing it with the journal

    def loss(self, store: Store, jobs: Path) -> str:
        """Return in which way the journal is not what it was here; empty if it is, or if there was none. `jobs` is the
        folder of jobs."""
        mark, length, name = self._mark_of(store), 0, ""
        if store.exists():
            with store.open(readonly=True) as journal:
                length, name = len(journal), journal.name
        what = f"the journal {store.location}"
        if mark is None:
            was_here = not length and (_has_jobs(jobs) or store.backup_at() is not None)
            return (
                f"{what} is empty or gone: jobs in {jobs.parent}, or a backup, show that there was one"
                if was_here
                else ""
            )
        if not name:
            return f"{what} is gone: it had {mark.facts:,} facts"
        if name != mark.name:
            return f"{what} is not the one that was here: it has {length:,} facts, that one had {mark.facts:,}"
        if length < mark.facts:
            return f"{what} is cut off or an older copy: it has {length:,} facts, and had {mark.facts:,}"
        return ""

    def _mark_of(self, store: Store) -> Mark | None:
        """Return the marker if it is of the journal in this store: a server may be given another one."""
        mark = self.read()
        return mark if mark is not None and mark.url == for_process(store.url)[0] else None

    # ---- restoring

    def restore(self, store: Store, *facts: Fact) -> Restored:
        """Make the journal or its backup the journal, whichever has more facts that can all be read. Append `facts` if
        some are missing then."""
        mark, length = self._mark_of(store), 0
        with suppress(JournalError):
            if store.exists():
                length = _count(store, "" if mark is None else mark.name)
        try:
            backup = store.backup_length()
        except JournalError:
            if not length:
                raise
            backup = None
        if backup is None and not length:
            raise NotFound(f"there is no backup at {store.backup_location}")
        at = ""
        if backup is not None and backup > length:
            at = backup_time(store)
            store.restore()
        with store.open() as journal:
            length = len(journal)
            is_whole = mark is not None and not at and length >= mark.facts
            if not is_whole:
                journal.append(*facts)
            self.write(Mark.of(journal, mark.highest_id if mark is not None else 0))
        return Restored(is_whole, length, max(mark.facts - length, 0) if mark is not None else 0, at)


def backup_time(store: Store) -> str:
    """Return when the last backup was made, as text; empty if there is none."""
    at = store.backup_at()
    return "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")[:-6] + "Z"


def remedy(store: Store, command: str) -> str:
    """Return what to do about a journal that is lost or damaged. `command` restores it."""
    if at := backup_time(store):
        return (
            f"{command} goes back to {store.backup_location}, the backup of {at}, or keeps the journal if it has more"
        )
    return f"there is no backup at {store.backup_location}: put the journal back; {command} keeps an older one"


def _count(store: Store, name: str) -> int:
    """Return the length of a journal that can be read to its end and has this name; 0 if it has another."""
    with store.open(readonly=True) as journal:
        for _ in journal.read():
            pass
        return len(journal) if name in ("", journal.name) else 0


def _has_jobs(jobs: Path) -> bool:
    return jobs.is_dir() and any(name[0].isdecimal() for name in os.listdir(jobs))
