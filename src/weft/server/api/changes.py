"""The feed of changes for screens. One task makes the messages for all clients, while there are any."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from weft.access.wire import messages as m
from weft.errors import Refused
from weft.model import Decision, Event, JobId, NodeId, Seconds
from weft.node.engine.background import TaskSet
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.server.api.services import service_views
from weft.server.controller import Controller
from weft.server.process.cpu_shares import pause_payer
from weft.server.process.slices import own_turn
from weft.server.rpc.cut_off import cut_off
from weft.views.answers.base import encode
from weft.views.answers.changes import ChangesView
from weft.views.answers.jobs import ProgressView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView
from weft.views.from_state.change_tracker import ChangeTracker
from weft.views.from_state.changed_rows import ChangeBuilder, Readings
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import NodeConnection
from weft.views.from_state.weaves import weave_views

PERIOD_S: Final = 0.5
SLOW_PERIODS: Final = 4
"""Readings, nodes, progress, services and weaves are compared every so often."""
SILENT_PERIODS: Final = 10
"""A message without a change is sent after this many periods, so that clients know that the scheduler lives."""
MAX_BACKLOG: Final = 64
"""Messages that wait for a client which does not read. It is cut off then."""
log = logging.getLogger(__name__)


class LiveSources:
    """The rows of a running scheduler."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @property
    def scheduler(self) -> Scheduler:
        return self._controller.scheduler

    @property
    def policy(self) -> str:
        return self._controller.policy

    @property
    def numbers(self) -> GpuNumbers:
        return self._controller.inventory.numbers

    def now(self) -> Seconds:
        return self._controller.loop.clock.now()

    def progress(self, job: JobState) -> ProgressView | None:
        return self._controller.progress_of(job)

    def reported(self, since: Seconds) -> Sequence[JobId]:
        return self._controller.progress.reported(since)

    def readings(self) -> Readings:
        return self._controller.inventory.readings()

    def connections(self) -> Mapping[NodeId, NodeConnection]:
        return self._controller.inventory.nodes()

    def services(self) -> Sequence[ServiceView]:
        return service_views(self._controller, self.now())

    def weaves(self) -> Sequence[WeaveView]:
        controller = self._controller
        return weave_views(
            self.scheduler.state, controller.weaves, controller.weave_order, controller.inventory.numbers.renumbered
        )


class ChangeFeed:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._watchers: dict[Watcher, None] = {}
        self._tasks = TaskSet()
        self._tracker = ChangeTracker(controller.inventory.numbers)
        self._builder = ChangeBuilder(LiveSources(controller))
        self._scheduler = controller.scheduler

    async def watch(self, record_use: Callable[[], None]) -> AsyncIterator[m.FactLine]:
        """Stream all rows, then changes. The stream ends if another scheduler replaces the present one."""
        watcher = Watcher(asyncio.current_task())
        self._join(watcher)
        try:
            pages = self._builder.snapshot()
            while not watcher.is_over:
                record_use()
                while watcher.backlog:  # older than the next page
                    yield self._line(watcher.backlog.popleft())
                async with own_turn("slice"):
                    page = next(pages, None)
                if page is None:
                    break
                yield self._line(encode(page))
                await pause_payer()
            while not watcher.is_over:
                while watcher.backlog:
                    yield self._line(watcher.backlog.popleft())
                record_use()
                await watcher.wait()
        finally:
            self._leave(watcher)

    def _line(self, text: str) -> m.FactLine:
        return m.FactLine(position=len(self._controller.journal), json=text)

    def _join(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None
        if len(self._watchers) == 1:
            self._start_over()
            self._controller.loop.on_facts.append(self._record)
            self._tasks.spawn(self._produce())

    def _leave(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        if not self._watchers and self._record in self._controller.loop.on_facts:
            self._controller.loop.on_facts.remove(self._record)

    def _start_over(self) -> None:
        self._tracker = ChangeTracker(self._controller.inventory.numbers)
        self._builder = ChangeBuilder(LiveSources(self._controller))
        self._scheduler = self._controller.scheduler

    def _record(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        self._tracker.record(events)
        self._tracker.record(decisions)

    async def _produce(self) -> None:
        periods = silent = 0
        builder = self._builder
        while self._watchers and self._builder is builder:
            await asyncio.sleep(PERIOD_S)
            periods, silent = periods + 1, silent + 1
            if self._controller.scheduler is not self._scheduler:
                self._end_all()
                return
            try:
                found = builder.changes(self._tracker.take(), slow=periods % SLOW_PERIODS == 0)
            except Exception:
                log.exception("could not describe what has changed")
                self._end_all()
                return
            if found is None and silent >= SILENT_PERIODS:
                found = ChangesView(now=self._controller.loop.clock.now())
            if found is not None:
                silent = 0
                self._broadcast(encode(found))

    def _broadcast(self, text: str) -> None:
        for watcher in list(self._watchers):
            if len(watcher.backlog) < MAX_BACKLOG:
                watcher.send(text)
            else:
                self._leave(watcher)
                watcher.cut_off()

    def _end_all(self) -> None:
        """End all streams: the clients ask again and get everything."""
        for watcher in list(self._watchers):
            self._leave(watcher)
            watcher.end()


class Watcher:
    """A client, and the messages that wait for it."""

    def __init__(self, call: asyncio.Task[Any] | None) -> None:
        self.backlog: deque[str] = deque()
        self.is_over = False
        self._call, self._news = call, asyncio.Event()

    def send(self, text: str) -> None:
        self.backlog.append(text)
        self._news.set()

    async def wait(self) -> None:
        """Return once there is a message, or the stream is over."""
        await self._news.wait()
        self._news.clear()

    def end(self) -> None:
        self.is_over = True
        self._news.set()

    def cut_off(self) -> None:
        self.backlog.clear()
        self.end()
        log.warning("a screen was cut off: it read nothing while %d messages waited", MAX_BACKLOG)
        if self._call is not None:
            cut_off(self._call, Refused("this client was cut off: it has not read its messages\n  connect again"))
