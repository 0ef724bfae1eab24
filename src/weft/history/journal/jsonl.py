"""A journal in a text file: a header line, then one line of JSON per fact.

A fact is complete once its newline is written. A last line that has no newline or is not JSON comes from a write that
a crash interrupted: opening the file for appending cuts the line off and saves its bytes in `<name>.torn`.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final, Self

from weft.errors import JournalError
from weft.history.journal.base import CHECK_TIMEOUT_S, PAGE_FACTS, Encoded, Health
from weft.history.journal.codec import FORMAT, check_format, is_garbled, seal, unseal
from weft.history.journal.file_store import FileStore
from weft.history.journal.files import explain_errors, open_private, save_torn
from weft.inputs.atomic import sync_folder, write_all, write_atomic
from weft.inputs.locks import try_lock
from weft.model import Fact

HEADER: Final = b'{"weft":"journal","format":%d}\n' % FORMAT
BUFFER_BYTES: Final = 1 << 16
CLOSED: Final = -1
NAME_SUFFIX: Final = ".name"
"""Suffix of the file that holds the journal's name."""


class JsonlJournal:
    """A journal that buffers appends until `flush`, `sync`, `read` or `close`, or until the buffer is full."""

    waits = False

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.torn: str | None = None
        self._pending: list[str] = []
        self._pending_bytes = 0
        self._append_error = "it is open for reading only" if readonly else ""
        with explain_errors(self.path, "open"):
            flags = os.O_RDONLY if readonly else os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._fd = open_private(self.path, flags | os.O_NONBLOCK)
            try:
                self._written, self._size = self._recover(readonly)
            except BaseException:
                self._release()
                raise
        if readonly:
            self._release()

    def append(self, *facts: Fact | Encoded) -> None:
        if self._append_error:
            raise JournalError(f"cannot append to {self.path}: {self._append_error}")
        lines = [seal(fact, position) for position, fact in enumerate(facts, start=len(self) + 1)]
        self._pending += lines
        self._pending_bytes += sum(map(len, lines))
        if self._pending_bytes >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the file: the facts then survive the end of this process."""
        if not self._pending:
            return
        block = ("\n".join(self._pending) + "\n").encode("ascii")
        try:
            write_all(self._fd, block)
        except OSError as error:
            raise self._fail(error) from None
        self._size += len(block)
        self._written += len(self._pending)
        self._clear_buffer()

    def sync(self) -> None:
        self.flush()
        if self._fd == CLOSED:
            return
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._fail(error) from None

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:
        """Yield the present facts, line by line: `page` has no effect."""
        self.flush()
        return self._facts(after, self._written)

    @property
    def url(self) -> str:
        return JsonlStore(self.path).url

    @property
    def base(self) -> int:
        """Always 0: a text journal keeps every fact."""
        return 0

    @property
    def name(self) -> str:
        path = self.path.with_name(self.path.name + NAME_SUFFIX)
        with explain_errors(path, "name the journal in"):
            with suppress(FileExistsError):
                fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                try:
                    write_all(fd, os.urandom(8).hex().encode())
                finally:
                    os.close(fd)
            return path.read_text()

    def compact(self) -> bool:
        """Return False: a text journal keeps every fact."""
        return JsonlStore(self.path).compact()

    def backup(self) -> None:
        self.flush()
        JsonlStore(self.path).backup()

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        self.flush()
        return JsonlStore(self.path).check(timeout_s)

    def __len__(self) -> int:
        return self._written + len(self._pending)

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._append_error = self._append_error or "it is closed; reopen it"
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _facts(self, after: int, until: int) -> Iterator[Fact]:
        with explain_errors(self.path, "read"), self.path.open("rb") as file:
            for position, line in enumerate(islice(file, after + 1, until + 1), start=after + 1):
                try:
                    fact = unseal(line.rstrip(), position)
                except JournalError as error:
                    raise type(error)(f"{self.path}:{position + 1}: {error}") from None
                yield fact

    def _fail(self, error: OSError) -> JournalError:
        """Return to the last complete block and refuse appends: after a failed write the disk's content is unknown."""
        lost = len(self._pending)
        self._clear_buffer()
        self._append_error = "an earlier write failed; reopen it to continue from its last complete fact"
        with suppress(OSError):  # the next open then cuts the torn line off
            os.ftruncate(self._fd, self._size)
        self._release()
        return JournalError(
            f"cannot write to {self.path}: {error.strerror}; the last {lost} facts are lost, the {self._written}"
            " before them are saved\n  free some disk space, then reopen it"
        )

    def _clear_buffer(self) -> None:
        self._pending = []
        self._pending_bytes = 0

    def _release(self) -> None:
        """Close the file, which also releases the lock."""
        fd, self._fd = self._fd, CLOSED
        if fd != CLOSED:
            os.close(fd)

    # ---- opening

    def _recover(self, readonly: bool) -> tuple[int, int]:
        """Return the number of facts in the file and its size in bytes, after cutting off an unfinished line."""
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise JournalError(f"cannot open {self.path}: not a regular file; give the path of a .jsonl file")
        if not readonly:
            self._lock()
        if not self._has_header():
            return 0, 0 if readonly else self._write_header()
        lines, last, end = _find_whole_lines(self._fd)
        torn = os.pread(self._fd, os.fstat(self._fd).st_size - end, end)
        if not torn and lines > 1 and is_garbled(os.pread(self._fd, end - last, last)):
            torn = os.pread(self._fd, end - last, last)
            lines, end = lines - 1, last
        if torn:
            self._cut_torn(torn, end, f"line {lines + 1}", readonly)
        return lines - 1, end

    def _lock(self) -> None:
        if not try_lock(self._fd):
            raise JournalError(
                f"cannot open {self.path}: another process is writing to it\n  stop it, or open for reading only"
            )

    def _has_header(self) -> bool:
        """Return False for a new file, or for one whose header is incomplete."""
        line, newline, _ = os.pread(self._fd, 256, 0).partition(b"\n")
        if not newline and HEADER.startswith(line):
            return False
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("weft") != "journal":
            raise JournalError(f"{self.path}:1: not a Weft journal; it must begin with {HEADER.decode().strip()}")
        check_format(header.get("format"), f"{self.path}:1")
        return True

    def _write_header(self) -> int:
        if torn := os.pread(self._fd, len(HEADER), 0):
            self._cut_torn(torn, 0, "line 1", readonly=False)
        try:
            write_all(self._fd, HEADER)
        except OSError:
            os.ftruncate(self._fd, 0)
            raise
        sync_folder(self.path)
        return len(HEADER)

    def _cut_torn(self, torn: bytes, end: int, where: str, readonly: bool) -> None:
        if readonly:
            self.torn = f"{self.path}: {where} is unfinished; ignored its {len(torn)} bytes"
            return
        saved = save_torn(self.path, torn)
        os.ftruncate(self._fd, end)
        self.torn = f"{self.path}: {where} was unfinished; cut off its {len(torn)} bytes, saved in {saved}"


class JsonlStore(FileStore):
    """The text file of a journal."""

    scheme: ClassVar[str] = "jsonl"
    journal = JsonlJournal

    def compact(self) -> bool:
        return False

    def backup(self) -> None:
        with explain_errors(self.path, "back up"):
            content = self.path.read_bytes()
            whole_lines = content[: content.rfind(b"\n") + 1]  # without a line that is being written
            write_atomic(self.backup_path, whole_lines, durable=True)

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        size = self.path.stat().st_size if self.path.exists() else 0
        return Health(size, 0, self.diagnose(time.monotonic() + timeout_s))


def _find_whole_lines(fd: int) -> tuple[int, int, int]:
    """Return the number of lines that end in a newline, and the offsets at which the last of them begins and ends."""
    lines = last = end = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        if found := chunk.count(b"\n"):
            newline = chunk.rfind(b"\n")
            last = end if found == 1 else offset + chunk.rfind(b"\n", 0, newline) + 1
            end = offset + newline + 1
            lines += found
        offset += len(chunk)
    return lines, last, end
