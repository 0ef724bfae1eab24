"""A journal in a PostgreSQL database: each append is one statement, on disk when the call returns.

The statement holds a fence: it changes nothing unless the epoch of `weft_leader` is still that of the writer. A row of
`weft_facts` keeps the epoch under which it was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Self

from weft.errors import Deposed, JournalDamaged, JournalError
from weft.history.journal.base import CHECK_TIMEOUT_S, PAGE_FACTS, Encoded, Health
from weft.history.journal.codec import seal, unseal
from weft.history.journal.postgres import schema
from weft.history.journal.postgres.session import Conflict, ConnectionLost, Session
from weft.model import Fact

if TYPE_CHECKING:
    from weft.history.journal.postgres.store import PostgresStore

INSERT: Final = (
    "INSERT INTO weft_facts SELECT %(after)s + f.nr, %(epoch)s, f.body"
    " FROM led, unnest(%(bodies)s::text[]) WITH ORDINALITY AS f(body, nr)"
)
FENCED: Final = f"WITH led AS (SELECT 1 FROM weft_leader WHERE epoch = %(epoch)s FOR SHARE) {INSERT}"
"""For a writer without a lease, such as a tool."""
FENCED_AND_RENEWED: Final = (
    "WITH led AS (UPDATE weft_leader SET renewed_at = {now}"
    f" WHERE epoch = %(epoch)s AND holder = %(holder)s RETURNING 1) {INSERT}"
)
"""For the leader: an append renews its lease."""
CLOCK: Final = "clock_timestamp()"
RETRY_S: Final = 0.1
LENGTH: Final = (
    "SELECT coalesce((SELECT max(position) FROM {0}facts), (SELECT value::bigint FROM {0}meta WHERE key = 'base'), 0)"
)
_LAST: Final = LENGTH.format("weft_")


class PostgresJournal:
    """A journal that other processes may read while this one appends. See `.compaction` for its snapshot."""

    waits = True
    torn: str | None = None
    """Always None: a transaction is never half there."""

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        self.url = url
        self._append_error = "it is open for reading only" if readonly else ""
        self._count = 0
        self._writer, self._reader = Session(url), Session(url)
        self.where = self._writer.where
        self._epoch, self._holder, self._now = 0, "", CLOCK
        self._may_retry: Callable[[], bool] = lambda: False
        try:
            if not readonly:
                schema.create(self._reader)
            elif not schema.has_tables(self._reader):
                raise JournalError(f"cannot open {self.where}: a journal does not exist there")
            self.name = schema.check(self._reader)["name"]
            self.refresh()
        except BaseException:
            self._reader.close()
            raise

    def refresh(self) -> None:
        """Learn what other processes wrote."""
        ((self._epoch,),) = self._reader.rows("read", "SELECT epoch FROM weft_leader")
        ((self._count,),) = self._reader.rows("read", _LAST)

    def lead(self, epoch: int, holder: str, may_retry: Callable[[], bool], now: str = CLOCK) -> None:
        """Append as the leader of this epoch from now on. While `may_retry` holds, an append waits for a database that
        is away."""
        self._epoch, self._holder, self._may_retry, self._now = epoch, holder, may_retry, now
        ((self._count,),) = self._reader.rows("read", _LAST)

    def append(self, *facts: Fact | Encoded) -> None:
        if self._append_error:
            raise JournalError(f"cannot append to {self.where}: {self._append_error}")
        if not facts:
            return
        bodies = [seal(fact, position) for position, fact in enumerate(facts, start=self._count + 1)]
        statement = FENCED_AND_RENEWED.format(now=self._now) if self._holder else FENCED
        given = {"after": self._count, "epoch": self._epoch, "bodies": bodies, "holder": self._holder}
        if self._insert(statement, given, is_first=True) != len(bodies):
            raise Deposed(f"cannot append to {self.where}: another server has taken over")
        self._count_appended(facts)

    def _count_appended(self, facts: Sequence[Fact | Encoded]) -> None:
        self._count += len(facts)

    def _insert(self, statement: str, given: dict[str, Any], *, is_first: bool = False) -> int:
        """Insert the rows, and return their number. After a broken connection, find out whether they are there."""
        expected = len(given["bodies"])
        while True:
            try:
                if not is_first and self._is_inserted(given):
                    return expected
                return self._writer.run("append to", statement, given)[0]
            except ConnectionLost:
                if not self._may_retry():
                    raise
                time.sleep(RETRY_S)
            except Conflict:
                if is_first or not self._is_inserted(given):  # a statement whose connection broke may end later
                    raise
                return expected
            is_first = False

    def _is_inserted(self, given: dict[str, Any]) -> bool:
        """Return whether the rows of an interrupted insert are there: no other writer has this epoch."""
        found = self._writer.rows(
            "append to", "SELECT epoch, body FROM weft_facts WHERE position = %s",
            (given["after"] + len(given["bodies"]),),
        )  # fmt: skip
        return found == [(given["epoch"], given["bodies"][-1])]

    def sync(self) -> None:
        """Do nothing: every append is synced."""

    def read(self, after: int = 0, *, page: int = PAGE_FACTS) -> Iterator[Fact]:
        base = self.base
        early = self._rows("weft_snapshot", 0, self.snapshot_size, page) if after < base else iter(())
        return chain(early, self._rows("weft_facts", max(after, base), self._count, page))

    @property
    def base(self) -> int:
        found = self._reader.rows("read", "SELECT value::bigint FROM weft_meta WHERE key = 'base'")
        return int(found[0][0]) if found else 0

    @property
    def snapshot_size(self) -> int:
        ((last,),) = self._reader.rows("read", "SELECT coalesce(max(position), 0) FROM weft_snapshot")
        return int(last)

    def __len__(self) -> int:
        return self._count

    def compact(self) -> bool:
        return self._store().compact()

    def backup(self) -> None:
        self._store().backup()

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> Health:
        return self._store().check(timeout_s)

    def _store(self) -> PostgresStore:
        from weft.history.journal.postgres.store import PostgresStore  # the store imports this module

        return PostgresStore(self.url)

    def close(self) -> None:
        self._append_error = self._append_error or "it is closed; reopen it"
        self._writer.close()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, table: str, after: int, until: int, page: int) -> Iterator[Fact]:
        # page by page, so that a reader that stops halfway holds no transaction open
        for begin in range(after, until, page):
            end = min(begin + page, until)
            rows = self._reader.rows(
                "read",
                f"SELECT position, body FROM {table} WHERE position > %s AND position <= %s ORDER BY position",
                (begin, end),
            )
            if len(rows) != end - begin:
                raise JournalDamaged(
                    f"{self.where}: rows of {table} are missing between positions {begin + 1} and {end}"
                )
            for position, body in rows:
                yield decode_row(self.where, position, body)


def decode_row(where: str, position: int, body: str) -> Fact:
    try:
        return unseal(body.encode(), position)
    except JournalError as error:
        raise type(error)(f"{where}: position {position}: {error}") from None
