"""A journal that is gone with its process: for simulations and tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Self

from weft.errors import JournalError
from weft.model import Fact


class MemoryJournal:
    """A list of facts, kept as the objects they are."""

    torn: str | None = None

    def __init__(self, *facts: Fact) -> None:
        self._facts: list[Fact] = list(facts)
        self._closed = False

    def append(self, *facts: Fact) -> None:
        if self._closed:
            raise JournalError("this journal is closed: append before close, or start a new one")
        self._facts.extend(facts)

    def sync(self) -> None:
        """Nothing to do: there is no disk."""

    def read(self, after: int = 0) -> Iterator[Fact]:
        return islice(self._facts, after, len(self._facts))

    def __len__(self) -> int:
        return len(self._facts)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
