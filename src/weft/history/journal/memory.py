"""A journal in memory, for simulations and tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Self

from weft.errors import JournalError
from weft.history.journal.base import CHECK_TIMEOUT_S, OK, PAGE_FACTS, Encoded, Health, facts_of
from weft.model import Fact


class MemoryJournal:
    """A list of facts."""

    waits = False
    torn: str | None = None
    url = "memory://"
    """A URL that no other process can open."""

    def __init__(self, *facts: Fact) -> None:
        self._facts: list[Fact] = list(facts)
        self._snapshot: list[Fact] = []
        self.base = 0
        self._closed = False

    @cached_property
    def name(self) -> str:
        return os.urandom(8).hex()

    def append(self, *facts: Fact | Encoded) -> None:
        if self._closed:
            raise JournalError("this journal is closed: append before closing it, or make a new one")
        self._facts.extend(facts_of(facts))

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:
        """Yield the present facts. They are all in memory, so `page` has no effect."""
        late = islice(self._facts, max(after - self.base, 0), len(self._facts))
        return chain(tuple(self._snapshot), late) if after < self.base else late

    def __len__(self) -> int:
        return self.base + len(self._facts)

    def compact(self) -> bool:
        from weft.history.journal.summary import summary  # imports the core, which appending and reading do not need

        facts = summary(self.read())
        if facts is None:
            return False
        self.base, self._snapshot, self._facts = len(self), facts, []
        return True

    def backup(self) -> None:
        """Do nothing: a copy would disappear with the process."""

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        return Health(0, 0, OK)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
