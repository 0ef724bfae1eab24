"""The messages of a server: from the facts of each batch to the outbox on disk, and from there to their targets."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from weft.access.notify.outbox import MESSAGES, Entry, Outbox, Position
from weft.access.notify.targets import TargetsCache
from weft.access.notify.texts import test_message
from weft.errors import InputError, WeftError
from weft.inputs.notify_choice import stored_choice
from weft.model import Decision, Event, GroupLimited, Slots
from weft.node.engine.background import TaskSet
from weft.scheduling.core.state.state import State
from weft.server.jobs.groups import unfinished
from weft.server.notifications.dispatcher import Dispatcher
from weft.server.notifications.notices import Notice, Notices
from weft.server.shared_files import SharedFiles
from weft.views.answers.notify import NotifyTestView, TargetsView, TargetView

log = logging.getLogger(__name__)


class Notifications:
    def __init__(
        self, folder: Path, state: Callable[[], State], files: SharedFiles, place: Callable[[Slots], str]
    ) -> None:
        self._state, self._targets = state, TargetsCache()
        self._outbox = Outbox(folder / MESSAGES, files.changed, files.removed)
        self._scheduler = socket.gethostname()
        self._notices = Notices(self._scheduler, place)
        self._dispatcher = Dispatcher(self._outbox.remove)
        self._tasks = TaskSet()
        self._unstored: list[Notice] = []
        self._position: Position | None = None
        """The position to store; None: the stored one is right."""
        self._storing: asyncio.Task[None] | None = None
        self._next_number = 1
        self._is_open = False

    @property
    def pending(self) -> int:
        """The number of messages that are not delivered yet."""
        return self._dispatcher.pending + len(self._unstored)

    async def open(self) -> None:
        """Go on with what waits on disk, and with what happened while no server ran."""
        position, entries = await asyncio.to_thread(self._outbox.load)
        state = self._state()
        self._next_number = max((entry.number for entry in entries), default=0) + 1
        self._dispatcher.add(entries)
        known = {entry.message.get("id") for entry in entries}
        found = self._notices.catch_up(state, position or Position(state.now))
        self._is_open = True
        self._take([notice for notice in found if notice.message["id"] not in known], changed=position is None)

    async def close(self) -> None:
        if self._storing is not None:
            await self._storing
        await self._tasks.close()
        await self._dispatcher.close()

    def check(self, text: str) -> None:
        """Raise if a job may not choose these events and targets."""
        if text:
            self._targets.read().check(text)

    def record(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        """Take the facts of a batch that is on disk."""
        if self._is_open:
            found = self._notices.record(self._state(), events, decisions)
            self._take(found, changed=any(type(event) is GroupLimited for event in events))

    async def problems(self) -> list[str]:
        """Return why messages of unfinished jobs and of groups would have no target on this server."""
        state = self._state()
        texts = {job.job.task.notify: f"job {job.id}" for job in unfinished(state) if job.job.task is not None}
        texts |= {each.notify: f"group {name}" for name, each in state.eligibility.groups.settings.items()}
        texts.pop("", None)
        return await asyncio.to_thread(self._without_target, texts)

    def _without_target(self, texts: Mapping[str, str]) -> list[str]:
        for text, asker in texts.items():
            try:
                self._targets.read().resolve(stored_choice(text))
            except WeftError as error:
                why = str(error).partition("\n")[0]
                return [f"messages of {asker} have no target here: {why}; each server reads its own notify.yaml"]
        return []

    # ---- to disk

    def _take(self, notices: Sequence[Notice], *, changed: bool) -> None:
        if not notices and not changed:
            return
        self._unstored += notices
        self._position = self._notices.position(self._state())
        if self._storing is None:
            self._storing = self._tasks.spawn(self._store())

    async def _store(self) -> None:
        try:
            while self._position is not None:
                notices, position = self._unstored, self._position
                entries = self._entries(notices)
                self._unstored, self._position = [], None
                try:
                    await asyncio.to_thread(self._outbox.store, entries, position)
                except OSError as error:  # delivered all the same, unless the server ends first
                    log.warning("cannot store messages: %s", error)
                self._dispatcher.add(entries)
        finally:
            self._storing = None

    def _entries(self, notices: Sequence[Notice]) -> list[Entry]:
        """Return one entry for each message and target. Log what has no target any more."""
        found: list[Entry] = []
        for choice, message in notices:
            try:
                names = self._targets.read().resolve(choice)
            except WeftError as error:
                log.warning("message %s has no target: %s", message["id"], error)
                continue
            for name in names:
                if self._dispatcher.is_full(name):
                    self._dispatcher.drop(name)
                    continue
                found.append(Entry(self._next_number, name, time.time(), message))
                self._next_number += 1
        return found

    # ---- for people

    async def test(self, name: str, user: str) -> NotifyTestView:
        """Send a test message to a target, or to all default targets, and return how it went."""
        targets = await asyncio.to_thread(self._targets.read)
        names = (targets.find(name).name,) if name else targets.default
        if not names:
            raise InputError("no targets for messages are configured", hint=f"describe them in {targets.file}")
        rows = []
        for each in names:
            result = await self._dispatcher.try_once(each, test_message(each, time.time(), self._scheduler, user))
            target = targets.find(each)
            rows.append(TargetView(name=each, kind=target.kind, sent=int(result.ok), error=result.why or None))
        return NotifyTestView(targets=rows)

    async def list_targets(self, *, is_admin: bool) -> TargetsView:
        targets = await asyncio.to_thread(self._targets.read)
        rows = []
        for target in targets.by_name.values():
            queue = self._dispatcher.queues.get(target.name)
            rows.append(
                TargetView(
                    name=target.name, kind=target.kind, place=target.place if is_admin else "",
                    default=target.name in targets.default, pending=len(queue.entries) if queue else 0,
                    sent=queue.sent if queue else 0, dropped=queue.dropped if queue else 0,
                    error=(queue.error or None) if queue and is_admin else None,
                )
            )  # fmt: skip
        return TargetsView(file=targets.file if is_admin else "", webhooks=list(targets.webhooks), targets=rows)
