"""A server on a shared database serves in turns: it is a standby, it leads, and when deposed it is a standby again."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from weft.access.auth.token_tables import PostgresTokenTable
from weft.access.auth.tokens import DATABASE_FILE, Tokens
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths
from weft.access.endpoints.private_files import write_private
from weft.access.server.plan import Plan, ServerStatus
from weft.access.server.settings import Settings, save
from weft.errors import JournalDamaged, NotLeading, WeftError
from weft.history.journal import store_at
from weft.history.journal.marker import Marker
from weft.history.journal.postgres.blobs import BlobTable
from weft.history.journal.postgres.files import FileTable
from weft.history.journal.postgres.journal import PostgresJournal
from weft.history.journal.postgres.lease import LeaderLease
from weft.history.journal.postgres.led import LedJournal
from weft.history.journal.postgres.session import ConnectionLost
from weft.model import Paused
from weft.node.engine.background import TaskSet
from weft.server.leadership.file_mirror import EDITED_BY_HAND, FileFollower, FileMirror
from weft.server.leadership.lead import Lead
from weft.server.leadership.standby import Standby
from weft.server.pause_reasons import RECOVERING, RECOVERING_DETAIL
from weft.server.rpc.interceptor import AuthGateway
from weft.server.shared_files import LedParts

RECONNECT_S: Final = 0.5
"""The pause after a turn that ended because the database was away."""
log = logging.getLogger("weft.server")


@dataclass
class Turn:
    """One turn as the leader."""

    lead: Lead
    parts: LedParts
    settings: Settings
    tokens: Tokens
    stopping: asyncio.Event
    """Set when the server must end."""
    _tasks: TaskSet = field(default_factory=TaskSet)

    def refusal(self) -> WeftError | None:
        """Return the error for all calls once the lead is lost."""
        if self.lead.leads():
            return None
        return NotLeading("this server does not lead any more\n  name all servers: --scheduler HOST:PORT,HOST:PORT")

    def on_end(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the server must end or has lost the lead."""
        for event in (self.stopping, self.lead.lost):
            self._tasks.spawn(_call_after(event, stop))

    async def close(self) -> None:
        await self._tasks.close()


async def _call_after(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()


Serve = Callable[[Paths, Plan, Turn], Awaitable[None]]


@dataclass
class SharedServer:
    """One server on a database. `serve` serves one turn."""

    here: Paths
    plan: Plan
    address: Address
    serve: Serve
    load_settings: Callable[[], Settings]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    holder: str = field(default_factory=lambda: secrets.token_hex(8))

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stopping.set)
        url, is_first = self.here.journal_url, True
        write_private(self.here.state / DATABASE_FILE, f"{url}\n".encode())
        lease = LeaderLease(url, self.holder, str(self.address), self.plan.leader_lease_s)
        journal = await asyncio.to_thread(PostgresJournal, url)
        try:
            while not self.stopping.is_set():
                try:
                    await self._turn(lease, journal, notify=is_first)
                    is_first = False
                except ConnectionLost as error:  # it was there at the start, and comes back
                    log.warning("%s", error)
                    await self._pause()
                gc.unfreeze()  # the state of the last turn is garbage now
        finally:
            journal.close()
            lease.close()

    async def _turn(self, lease: LeaderLease, journal: PostgresJournal, *, notify: bool) -> None:
        """Be a standby, and then the leader until this server is stopped or deposed."""
        standby = await asyncio.to_thread(self._standby, lease, journal, notify=notify)
        try:
            lead = await self._follow(standby)
            if lead is not None:
                await self._lead(lead, standby)
        finally:
            standby.files.close()

    async def _pause(self) -> None:
        """Wait before the next attempt to reach the database, but not if the server must end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), RECONNECT_S)

    def _standby(self, lease: LeaderLease, journal: PostgresJournal, *, notify: bool) -> Standby:
        url, folder = self.here.journal_url, self.here.state
        files = FileFollower(FileTable(url), folder)
        made = Standby(lease, journal, files, self.load_settings, self.plan.flags, self.stopping)
        if notify:
            made.on_follow = lambda: self._announce(made.record.address)
        return made

    def _announce(self, leader: str) -> None:
        self.plan.on_ready(ServerStatus(os.getpid(), self.plan.port, False, None, self.here.journal_url, leader=leader))

    async def _follow(self, standby: Standby) -> Lead | None:
        """Refuse all calls until this server leads."""
        gateway = AuthGateway(self.plan.folder, await self._tokens(), refusal=standby.refusal)
        server = gateway.server()
        try:
            gateway.listen(server, self.plan.host, self.plan.port)
            await server.start()
            return await standby.take_over()
        finally:
            await server.stop(None)
            await gateway.close()

    async def _tokens(self) -> Tokens:
        url = self.here.journal_url
        return await asyncio.to_thread(Tokens, self.plan.folder, table=lambda: PostgresTokenTable(url))

    async def _lead(self, lead: Lead, standby: Standby) -> None:
        """Serve until this server is stopped or deposed."""
        journal = files = None
        is_deposed = False
        try:
            journal = await asyncio.to_thread(lead.open_journal, self.here.journal_url)
            await asyncio.to_thread(self._check, journal)
            lead.open(journal)
            files = await asyncio.to_thread(self._open_files, lead)
            settings, scheduler = await asyncio.to_thread(standby.finish, journal)
            files.changed(save(self.here.state, settings))
            for edited in (self.here.state / name for name in EDITED_BY_HAND):
                if edited.exists():
                    files.changed(edited)
            blobs = None if self.plan.blobs else await asyncio.to_thread(BlobTable, self.here.journal_url)
            parts = LedParts(journal, files, lead.writer, lead.leads, lead.epoch, blobs, scheduler)
            turn = Turn(lead, parts, settings, await self._tokens(), self.stopping)
            try:
                await self.serve(self.here, self.plan, turn)
            finally:
                await turn.close()
            is_deposed = lead.lost.is_set()
        except WeftError as error:
            if self.stopping.is_set() or not lead.lost.is_set():
                raise
            log.error("%s", error)
        finally:
            if files is not None:
                await asyncio.to_thread(files.close)
            if journal is not None:
                journal.close()
            await lead.close(release=not is_deposed)
            log.info("deposed: this server is a standby again" if is_deposed else "gave up the lead")

    def _check(self, journal: LedJournal) -> None:
        """Raise if the journal is another one. If it lacks facts, as after the failover of a database, go on, but start
        nothing until workers have said which runs they have."""
        marker = Marker(self.here.state)
        if not (loss := marker.loss(store_at(self.here.journal_url), self.here.jobs)):
            return
        if (mark := marker.read()) is None or mark.name != journal.name:
            raise JournalDamaged(loss)
        log.error("%s", loss)
        journal.append(Paused(time.time(), RECOVERING, f"{loss}; {RECOVERING_DETAIL}"))

    def _open_files(self, lead: Lead) -> FileMirror:
        table = FileTable(self.here.journal_url)
        table.lead(lead.epoch, lead.holder)
        return FileMirror(table, self.here.state)
