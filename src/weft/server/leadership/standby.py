"""A server that does not lead: it follows the journal and the files of the leader, refuses calls with the leader's
address, and takes over when the leader's lease has ended."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weft.access.server.settings import Settings, changed
from weft.errors import JournalError, NotLeading, WeftError
from weft.history.journal import Journal
from weft.history.journal.leadership import LeaderRecord
from weft.history.journal.postgres.journal import PostgresJournal
from weft.history.journal.postgres.lease import LeaderLease
from weft.node.engine.lease import now
from weft.scheduling.core.scheduler import Scheduler
from weft.server.leadership.file_mirror import FileFollower
from weft.server.leadership.lead import Lead
from weft.server.process.slices import at_once
from weft.server.replay import Prepared, create_scheduler

POLL_S: Final = 0.25
"""The pause between two attempts to take over. An orderly step-down is noticed within this time."""
log = logging.getLogger(__name__)


@dataclass
class WarmScheduler:
    """A scheduler that follows the journal, under these settings."""

    settings: Settings
    prepared: Prepared

    def replay(self, journal: Journal) -> Scheduler:
        """Replay what the journal has and the scheduler has not."""
        return at_once(self.prepared.catch_up(journal))


@dataclass
class Standby:
    """Follows a leader. `journal` is open for reading."""

    lease: LeaderLease
    journal: PostgresJournal
    files: FileFollower
    load_settings: Callable[[], Settings]
    flags: Mapping[str, Any]
    stopping: asyncio.Event
    record: LeaderRecord = field(default_factory=LeaderRecord)
    """The leader as last read."""
    warm: WarmScheduler | None = None
    on_follow: Callable[[], None] = lambda: None
    """Called once, when the first attempt to take over has failed."""
    _first_settings: Settings | None = None

    def refusal(self) -> WeftError:
        """Return the error for all calls."""
        there = f"the leader is {self.record.address}" if self.record.address else "no server leads at present"
        return NotLeading(f"this server is a standby: {there}\n  name all servers: --scheduler HOST:PORT,HOST:PORT")

    async def take_over(self) -> Lead | None:
        """Return the lead once this server has it; None if it must stop first."""
        failed, is_first = "", True
        while not self.stopping.is_set():
            try:
                epoch, sent_at = await asyncio.to_thread(self._follow_or_take)
                failed = ""
            except JournalError as error:
                if str(error) != failed:
                    log.warning("%s", error)
                epoch, sent_at, failed = None, 0.0, str(error)
            if epoch is not None:
                log.info("this server leads from now on, in epoch %d", epoch)
                return Lead(self.lease, epoch, sent_at)
            if is_first and not failed:
                is_first = False
                log.info("standby: the leader is %s", self.record.address)
                self.on_follow()
            try:
                await asyncio.wait_for(self.stopping.wait(), POLL_S)
            except TimeoutError:
                continue
        return None

    def _follow_or_take(self) -> tuple[int | None, float]:
        """Catch up, then try to take the lead. Return its epoch, and when the attempt began. In a thread: it waits for
        the database, and nothing else runs here."""
        self.catch_up()
        sent_at = now()
        epoch = self.lease.take()
        if epoch is None:
            self.record = self.lease.read()
        return epoch, sent_at

    def catch_up(self) -> None:
        """Copy the files and replay the facts that came since the last time."""
        self.files.follow()
        settings = self._settings()
        self.journal.refresh()
        if self.warm is None or self.warm.settings != settings:
            self.warm = self._fresh(settings)
        try:
            self.warm.replay(self.journal)
        except JournalError:  # compacted meanwhile: from the snapshot on
            self.warm = None
            raise
        except Exception:  # the policy's fault: the leader falls back to another, and says why
            log.exception("the policy failed")
            self.warm = None

    def finish(self, journal: Journal) -> tuple[Settings, Scheduler | None]:
        """Return the settings, and the scheduler with all facts of the journal, which this server leads now; None if
        the journal must be replayed again."""
        self.files.follow()
        settings, warm = self._settings(), self.warm
        try:
            if warm is None or warm.settings != settings:
                warm = self._fresh(settings)
            return settings, warm.replay(journal)
        except Exception:  # the controller replays it, and reports what is wrong
            log.exception("the journal must be replayed again")
            return settings, None

    def _settings(self) -> Settings:
        """Return the settings as stored. The flags of this server apply unless they were changed since it started."""
        stored = self.load_settings()
        self._first_settings = self._first_settings or stored
        return changed(stored, **self.flags) if stored == self._first_settings else stored

    def _fresh(self, settings: Settings) -> WarmScheduler:
        gc.unfreeze()
        return WarmScheduler(settings, Prepared(create_scheduler(settings, settings.policy)))
