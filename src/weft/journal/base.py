"""The port: what every journal can do, and what can be done to one that is not open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from weft.model import Fact

PAGE: Final = 1000
CHECK_S: Final = 5.0
"""A check that takes longer ends as unfinished."""
OK: Final = "ok"
UNFINISHED: Final = "unfinished"


@dataclass(frozen=True)
class Health:
    """How large a journal is and whether it is sound."""

    size_bytes: int
    pending_bytes: int
    """Written next to the journal and not yet moved into it."""
    check: str
    """`ok`, `unfinished`, or what is wrong."""


class Journal(Protocol):
    """Facts in the order they were appended; never changed. One writer, many readers.

    `compact` may replace the facts up to `base` by a snapshot that adds up to the same state. Positions stay the same.
    """

    @property
    def url(self) -> str:
        """What `open_journal` takes to open it again."""
        ...

    @property
    def torn(self) -> str | None:
        """What was cut off at opening because a crash had left it unfinished, in one line."""
        ...

    @property
    def base(self) -> int:
        """How many facts the snapshot stands for; 0 without one."""
        ...

    @property
    def name(self) -> str:
        """A random name of this journal, made when first asked for: job numbers mean something only within one."""
        ...

    def append(self, *facts: Fact) -> None:
        """Add these facts, or raise JournalError and add none of them."""
        ...

    def sync(self) -> None:
        """Return once everything appended would survive a power cut."""
        ...

    def read(self, after: int = 0, *, page: int = PAGE) -> Iterator[Fact]:
        """Return the facts there are now, without the first `after`; before `base`, the snapshot first.

        A journal that reads in pages holds at most `page` facts in memory for a slow reader.
        """
        ...

    def __len__(self) -> int:
        """Return how many facts were ever appended: the position to `read` after, next time."""
        ...

    def compact(self) -> bool:
        """Replace the facts so far by a snapshot, while others append. False where this is not the moment."""
        ...

    def backup(self) -> None:
        """Replace the last copy of the journal, whole or not at all, while others append."""
        ...

    def check(self, longest_s: float = CHECK_S) -> Health:
        """Return its size and whether it is sound."""
        ...

    def close(self) -> None:
        """Sync and let go of the file. Closing twice is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """Where a journal is kept. It needs no open journal, so it works on a damaged one too."""

    @property
    def url(self) -> str: ...

    @property
    def backup_place(self) -> str:
        """Where the last backup is, or would be."""
        ...

    def open(self, *, readonly: bool = False) -> Journal: ...

    def exists(self) -> bool: ...

    def compact(self) -> bool: ...

    def backup(self) -> None: ...

    def check(self, longest_s: float = CHECK_S) -> Health: ...

    def backup_at(self) -> float | None:
        """Return when the last backup was made, in seconds since 1970; None without one."""
        ...

    def restore(self) -> None:
        """Put the last backup in the journal's place and keep what was there under another name."""
        ...
