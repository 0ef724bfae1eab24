"""The lead of one server while it lasts: renewed in a thread, and lost when it cannot be renewed in time."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from weft.errors import JournalError
from weft.history.journal.leadership import RENEWALS_PER_LEASE, Tenure
from weft.history.journal.postgres.lease import LeaderLease
from weft.history.journal.postgres.led import LedJournal
from weft.node.engine.lease import now

RETRIES_PER_RENEWAL: Final = 5
log = logging.getLogger(__name__)


class Lead:
    """The lead under one epoch. `leads` is what every answer depends on; it reads a clock and nothing else."""

    def __init__(self, lease: LeaderLease, epoch: int, sent_at: float) -> None:
        self._lease, self.epoch = lease, epoch
        self.tenure = Tenure(lease.lease_s, sent_at)
        self.lost = asyncio.Event()
        """Set when the server must stop serving."""
        self.writer = ThreadPoolExecutor(1, "weft-journal")
        self._renewer = ThreadPoolExecutor(1, "weft-lease")
        self._keeping: asyncio.Task[None] | None = None

    @property
    def holder(self) -> str:
        return self._lease.holder

    @property
    def address(self) -> str:
        return self._lease.address

    def leads(self) -> bool:
        return not self.lost.is_set() and now() < self.tenure.answers_until

    def open_journal(self, url: str) -> LedJournal:
        """Open the journal as this leader. It waits for the database."""
        return LedJournal(url, self.epoch, self.holder, self.tenure, now)

    def open(self, journal: LedJournal) -> None:
        self._keeping = asyncio.get_running_loop().create_task(self._keep(journal))

    async def _keep(self, journal: LedJournal) -> None:
        """Renew the lease until it is lost."""
        loop = asyncio.get_running_loop()
        pause_s = self.tenure.lease_s / RENEWALS_PER_LEASE / RETRIES_PER_RENEWAL
        while self.leads():
            if now() >= self.tenure.renewal_due:
                renewing = loop.run_in_executor(self._renewer, self._renew, journal)
                # a renewal that hangs must not keep this task from noticing that the lease has ended
                await asyncio.wait({renewing}, timeout=max(self.tenure.answers_until - now(), 0.0))
                if renewing.done() and renewing.result() is False:
                    log.error("another server has taken over: this one stops serving")
                    break
            await asyncio.sleep(min(pause_s, max(self.tenure.answers_until - now(), 0.0)))
        else:
            if not self.lost.is_set():
                log.error("the lease of %g s has ended: this server stops serving", self.tenure.lease_s)
        self.lost.set()

    def _renew(self, journal: LedJournal) -> bool | None:
        """Renew the lease, in a thread. Return False if another server leads, None if the database is away."""
        sent_at = now()
        try:
            if not self._lease.renew(self.epoch):
                return False
            self.tenure.renew(sent_at)
            journal.refresh_base()
        except JournalError as error:
            log.warning("could not renew the lead: %s", error)
            return None
        return True

    async def close(self, *, release: bool) -> None:
        """Stop renewing. With `release`, let another server take over at once: this one answers no calls any more."""
        self.lost.set()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if release:
            try:
                await asyncio.to_thread(self._lease.release, self.epoch)
            except JournalError as error:
                log.warning("could not give up the lead, which ends with its lease: %s", error)
        self.writer.shutdown(wait=False)
        self._renewer.shutdown(wait=False)
