"""The small files of a server, kept in the database of its journal as well.

The leader reads and writes files in its folder, which never waits, and a thread copies each change to the database.
The other servers copy the changes to their folders, so that any of them can lead.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

from weft.access.notify.outbox import MESSAGES, POSITION
from weft.errors import Deposed, JournalError
from weft.history.journal.postgres.files import PAGE_FILES, FileTable, StoredFile
from weft.inputs.atomic import write_atomic

FLUSH_S: Final = 0.2
"""The longest time from a change to its copy, unless the database is slow."""
MAX_FLUSH_FILES: Final = 200
EDITED_BY_HAND: Final = ("limits.json",)
"""Files that an admin edits in the folder of a server. The newest one wins when that server starts."""
MESSAGE_POSITION: Final = f"{MESSAGES}/{POSITION}"
CLOSE_TIMEOUT_S: Final = 10.0
log = logging.getLogger(__name__)


class FileMirror:
    """Copies changed files below `folder` to the table, in one thread: the last content of each, in order."""

    def __init__(self, table: FileTable, folder: Path) -> None:
        self._table, self._folder = table, folder
        self._waiting: dict[str, bool] = {}
        """Names of changed files; False: the file or folder of this name was removed."""
        self._guard, self._more = threading.Lock(), threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="weft-files", daemon=True)
        self._thread.start()

    def changed(self, path: Path) -> None:
        self._add(path, True)

    def removed(self, *paths: Path) -> None:
        for path in paths:
            self._add(path, False)

    def store(self, path: Path) -> None:
        self._table.put([(self._name(path), path.read_bytes())])

    def close(self) -> None:
        """Copy what waits, as far as the database answers, and end."""
        self._is_closed = True
        self._more.set()
        self._thread.join(timeout=CLOSE_TIMEOUT_S)
        self._table.close()

    def _add(self, path: Path, exists: bool) -> None:
        with self._guard:
            name = self._name(path)
            self._waiting.pop(name, None)
            self._waiting[name] = exists
        self._more.set()

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _run(self) -> None:
        while not (self._is_closed and not self._waiting):
            self._more.wait()
            if not self._is_closed:
                time.sleep(FLUSH_S)  # several changes of one file become one
            self._more.clear()
            try:
                while self._waiting:
                    self._flush()
            except Deposed:
                return
            except JournalError as error:
                log.warning("could not copy files to the database: %s", error)
                if self._is_closed:
                    return
                self._more.set()

    def _flush(self) -> None:
        with self._guard:
            some = dict(list(self._waiting.items())[:MAX_FLUSH_FILES])
        self._table.put((name, body) for name, exists in some.items() if exists and (body := self._read(name)))
        if gone := [name for name, exists in some.items() if not exists]:
            self._table.remove(gone)
        with self._guard:
            for name, exists in some.items():
                if self._waiting.get(name) == exists:
                    del self._waiting[name]

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError:  # removed meanwhile
            return b""


class FileFollower:
    """Copies the changes that a leader makes to a folder."""

    def __init__(self, table: FileTable, folder: Path) -> None:
        self._table, self._folder, self._version = table, folder, 0
        self._first_names: set[str] | None = set()
        """The names of the files in the table, until all have been read once."""

    def follow(self) -> None:
        """Copy all changes since the last call. It waits for the database."""
        while found := self._table.changes(self._version):
            for each in found:
                self._apply(each)
                if self._first_names is not None and each.body is not None:
                    self._first_names.add(each.name)
            self._version = found[-1].version
            if len(found) < PAGE_FILES:
                break
        if self._first_names is not None:
            self._remove_uncopied(self._first_names)
            self._first_names = None

    def _remove_uncopied(self, names: set[str]) -> None:
        """Remove messages that this server wrote as the leader, and did not copy before it was killed.

        The next leader made and sent them again, from the position that the table has.
        """
        if MESSAGE_POSITION not in names:
            return
        for path in (self._folder / MESSAGES).glob("[0-9]*.json"):
            if f"{MESSAGES}/{path.name}" not in names:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        self._table.close()

    def _apply(self, file: StoredFile) -> None:
        path, body = self._folder / file.name, file.body
        if not path.resolve().is_relative_to(self._folder.resolve()):
            log.error("the database has a file outside of the server's folder: %s", file.name[:200])
        elif file.name in EDITED_BY_HAND and path.exists() and path.stat().st_mtime > file.changed_at:
            return  # an admin has changed it here since; the leader copies it to the database
        elif body is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, body)
            os.utime(path, (file.changed_at, file.changed_at))
        else:
            path.unlink(missing_ok=True)
            _remove_empty(path.parent, self._folder)


def _remove_empty(folder: Path, until: Path) -> None:
    if folder != until and folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
