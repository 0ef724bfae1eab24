"""The interfaces of an open journal and of the store that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from weft.model import Fact

PAGE_FACTS: Final = 1000
CHECK_TIMEOUT_S: Final = 5.0
"""A check that takes longer returns `unfinished`."""
OK: Final = "ok"
UNFINISHED: Final = "unfinished"


class Encoded(NamedTuple):
    """A fact with its line. Appending it does not encode it again."""

    fact: Fact
    line: str


def facts_of(facts: Iterable[Fact | Encoded]) -> list[Fact]:
    """Return the facts, without their lines."""
    return [fact.fact if isinstance(fact, Encoded) else fact for fact in facts]


@dataclass(frozen=True)
class Health:
    """The size of a journal and the result of its integrity check."""

    size_bytes: int
    pending_bytes: int
    """Bytes in the write-ahead file next to the journal, not yet moved into it."""
    check: str
    """`ok`, `unfinished`, or the damage found."""


class Journal(Protocol):
    """Facts in the order in which they were appended. One writer, many readers.

    Facts never change, but `compact` may replace the facts up to `base` by a snapshot of the same state. Positions
    stay the same.
    """

    @property
    def url(self) -> str:
        """The URL with which `open_journal` opens this journal again."""
        ...

    @property
    def waits(self) -> bool:
        """True if calls wait for a network: the event loop of a server must not make them itself."""
        ...

    @property
    def torn(self) -> str | None:
        """One line about the unfinished fact that opening cut off after a crash; None if there was none."""
        ...

    @property
    def base(self) -> int:
        """The number of facts that the snapshot replaces; 0 without one."""
        ...

    @property
    def name(self) -> str:
        """A random name, made at first use. Job numbers are unique only within one journal."""
        ...

    def append(self, *facts: Fact | Encoded) -> None:
        """Add these facts, or raise JournalError and add none of them."""
        ...

    def sync(self) -> None:
        """Return once all appended facts would survive a power cut."""
        ...

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:
        """Yield the present facts after position `after`. If that is before `base`, yield the snapshot first.

        A journal that reads in pages holds at most `page` facts in memory.
        """
        ...

    def __len__(self) -> int:
        """Return the number of facts ever appended: the position from which to `read` next time."""
        ...

    def compact(self) -> bool:
        """Replace the facts so far by a snapshot, concurrently with appends. Return False if that is impossible now."""
        ...

    def backup(self) -> None:
        """Replace the last backup atomically, concurrently with appends."""
        ...

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        """Return the size and the result of an integrity check."""
        ...

    def close(self) -> None:
        """Sync and release the file. A second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """The place of a journal. A store works without opening the journal, so it also handles a damaged one."""

    @property
    def url(self) -> str: ...

    @property
    def location(self) -> str:
        """The path or the URL without its password, for messages."""
        ...

    @property
    def backup_location(self) -> str:
        """The path of the last backup, whether or not it exists."""
        ...

    def open(self, *, readonly: bool = False) -> Journal: ...

    def exists(self) -> bool: ...

    def compact(self) -> bool: ...

    def backup(self) -> None: ...

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health: ...

    def backup_at(self) -> float | None:
        """Return the time of the last backup in seconds since 1970; None without one."""
        ...

    def backup_length(self) -> int | None:
        """Return the number of facts ever appended before the last backup; None without one. Raise if it is damaged."""
        ...

    def restore(self) -> None:
        """Replace the journal by the last backup, and keep the replaced files under another name."""
        ...
