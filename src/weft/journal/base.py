"""What every journal can do."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from weft.model import Fact


class Journal(Protocol):
    """Facts in the order they were appended; never changed, never removed. One writer, many readers."""

    @property
    def torn(self) -> str | None:
        """What was cut off at opening because a crash had left it unfinished, in one line."""
        ...

    def append(self, *facts: Fact) -> None:
        """Add these facts, or raise JournalError and add none of them."""
        ...

    def sync(self) -> None:
        """Return once everything appended would survive a power cut."""
        ...

    def read(self, after: int = 0) -> Iterator[Fact]:
        """The facts there are now, without the first `after`."""
        ...

    def __len__(self) -> int:
        """How many facts there are: the position to `read` after, next time."""
        ...

    def close(self) -> None:
        """Sync and let go of the file. Closing twice is fine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
