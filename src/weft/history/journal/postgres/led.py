"""The journal of a leader. A thread appends to it; the event loop reads recent facts from memory, without waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from weft.errors import Deposed
from weft.history.journal.base import PAGE_FACTS, Encoded, facts_of
from weft.history.journal.leadership import Tenure
from weft.history.journal.postgres.journal import PostgresJournal
from weft.history.journal.postgres.session import ConnectionLost
from weft.model import Fact

RECENT_FACTS: Final = 10_000
"""Facts in memory. Watchers follow the journal closely, so that they rarely need others."""


class LedJournal(PostgresJournal):
    """A journal under a lease. An append that takes effect renews the lease; one that cannot until the lease ends
    raises Deposed."""

    def __init__(self, url: str, epoch: int, holder: str, tenure: Tenure, clock: Callable[[], float]) -> None:
        super().__init__(url)
        self._tenure, self._clock = tenure, clock
        self._recent: deque[Fact] = deque(maxlen=RECENT_FACTS)
        self._guard = threading.Lock()
        self._base = super().base
        self.lead(epoch, holder, lambda: clock() < tenure.answers_until)

    def append(self, *facts: Fact | Encoded) -> None:
        sent_at = self._clock()
        try:
            super().append(*facts)
        except ConnectionLost as error:
            raise Deposed(f"{error}\n  the lease has ended meanwhile") from None
        if facts:
            self._tenure.renew(sent_at)

    def _count_appended(self, facts: Sequence[Fact | Encoded]) -> None:
        with self._guard:
            super()._count_appended(facts)
            self._recent.extend(facts_of(facts))

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:
        with self._guard:
            first = self._count - len(self._recent)
            if after >= first:
                return iter(list(islice(self._recent, after - first, None)))
        return super().read(after, page=page)

    @property
    def base(self) -> int:
        return self._base

    def refresh_base(self) -> None:
        """Learn of a compaction, which another process does. Call it in a thread."""
        self._base = super().base
