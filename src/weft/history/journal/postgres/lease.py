"""The lead in SQL: `LeaderRecord` as the one row of `weft_leader`, compared by the clock of the database.

No advisory lock is used: it ends with a session, so that a connection pooler breaks it, and it does not fence.
"""

from __future__ import annotations

from typing import Final

from weft.history.journal.leadership import LeaderRecord
from weft.history.journal.postgres.journal import CLOCK
from weft.history.journal.postgres.session import Session

_READ: Final = "SELECT epoch, holder, address, lease_s, extract(epoch FROM renewed_at)::float8 FROM weft_leader"
_TAKE: Final = (
    "UPDATE weft_leader SET epoch = epoch + 1, holder = %(holder)s, address = %(address)s, lease_s = %(lease_s)s,"
    " renewed_at = {now} WHERE holder = '' OR renewed_at < {now} - make_interval(secs => lease_s) RETURNING epoch"
)
_RENEW: Final = "UPDATE weft_leader SET renewed_at = {now} WHERE epoch = %s AND holder = %s"
_RELEASE: Final = "UPDATE weft_leader SET holder = '', address = '' WHERE epoch = %s AND holder = %s"


class LeaderLease:
    """The lease of one server, under the name `holder`. Calls wait for the database."""

    def __init__(self, url: str, holder: str, address: str, lease_s: float, *, now: str = CLOCK) -> None:
        self.holder, self.address, self.lease_s, self._now = holder, address, lease_s, now
        self._session = Session(url, timeout_s=max(lease_s / 2, 0.5))

    def read(self) -> LeaderRecord:
        ((epoch, holder, address, lease_s, renewed_at),) = self._session.rows("read", _READ)
        return LeaderRecord(epoch, holder, address, lease_s, renewed_at)

    def take(self) -> int | None:
        """Take the lead, and return its epoch; None if another server holds it."""
        given = {"holder": self.holder, "address": self.address, "lease_s": self.lease_s}
        found = self._session.rows("take the lead in", _TAKE.format(now=self._now), given)
        return int(found[0][0]) if found else None

    def renew(self, epoch: int) -> bool:
        """Renew the lease. Return False if another server has taken over."""
        return self._session.run("renew the lead in", _RENEW.format(now=self._now), (epoch, self.holder))[0] == 1

    def release(self, epoch: int) -> None:
        """Give the lead up, so that another server can take it at once."""
        self._session.run("give up the lead in", _RELEASE, (epoch, self.holder))

    def close(self) -> None:
        self._session.close()
