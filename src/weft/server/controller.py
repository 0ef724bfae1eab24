"""The controller: it owns the scheduler, the journal, the loop and the backend, and connects them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings, changed, save
from weft.errors import Deposed, InputError, JournalError, Refused
from weft.history.journal import open_journal
from weft.history.journal.marker import Marker
from weft.model import Decision, Event, Slots
from weft.model.slots import format_slots
from weft.node.care.restore import Recovery, highest_folder
from weft.node.engine.background import TaskSet
from weft.node.engine.output.left_reports import unsent_report
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates
from weft.server.backends.base import BuildBackend, Host, Order
from weft.server.forecasts.keeper import ForecastKeeper
from weft.server.forecasts.outcomes import Outcomes
from weft.server.jobs.commands import JobCommands
from weft.server.jobs.progress import Progress
from weft.server.jobs.requests import JobRequests
from weft.server.jobs.run_use import RunUse
from weft.server.loop import RETRY_S, Loop, describe_failure
from weft.server.maintenance import Maintenance
from weft.server.notifications.service import Notifications
from weft.server.pause_reasons import DISK_FLOOR, POLICY_FAILED
from weft.server.pools.keeper import PoolKeeper
from weft.server.process.clock import Clock
from weft.server.process.cpu_shares import CpuShares
from weft.server.process.slices import at_once, in_slices
from weft.server.replay import create_scheduler, dispose_scheduler, prepare_scheduler, replay
from weft.server.services.live import LiveServices
from weft.server.shared_files import FolderOnly, LedParts
from weft.server.weaves.messages import DEFAULT_ORDER
from weft.server.weaves.monitor import WeaveMonitor
from weft.views.answers.jobs import ProgressView
from weft.views.from_state.run_history import RunHistory

MIN_FREE_MB: Final = 16
"""With less free disk space than this, the server accepts no new jobs."""
MAX_REBUILD_SHARE: Final = 0.05
MAX_REBUILD_PAUSE_S: Final = 60.0
"""While its disk is broken, a server spends at most this share of its time on rebuilding its state, and pauses at most
this long in between."""
Recover = Callable[[State], Recovery | None]
log = logging.getLogger(__name__)


class Controller:
    """The server behind all its front ends. `led` is what it has as the leader of several servers."""

    _rebuilt_until = 0.0
    """The state is not rebuilt again before this time."""

    def __init__(
        self,
        paths: Paths,
        settings: Settings,
        build: BuildBackend,
        recover: Recover = lambda _: None,
        led: LedParts | None = None,
    ) -> None:
        self.paths, self.settings, self.policy = paths, settings, settings.policy
        self.journal = open_journal(paths.journal_url) if led is None else led.journal
        self.files = FolderOnly() if led is None else led.files
        log.log(logging.WARNING if self.journal.torn else logging.DEBUG, "%s", self.journal.torn)
        self.runs = RunHistory()
        self.policy_error = ""
        """The policy's error; empty while it works. Until it works again, a FIFO scheduler keeps the state."""
        self.scheduler = led.scheduler if led is not None and led.scheduler is not None else self._build_scheduler()
        self.recovery = recover(self.scheduler.state)
        """Facts that the journal had lost and that were restored; None if nothing was missing."""
        if self.recovery is not None:
            self._append_recovered(self.recovery)
        self.marker = Marker(paths.state)
        self._min_id = 1 + self.marker.begin(
            self.journal, max(highest_folder(paths.jobs), self.scheduler.state.highest_id)
        )
        clock, writing = Clock(self.scheduler.state.now), () if led is None else (led.writer, led.leads)
        self.loop = Loop(self.scheduler, self.journal, clock, self._execute, *writing)
        self.loop.on_facts += [self.runs.record_batch, self._advance_marker]
        self.progress = Progress(
            self.loop, lambda: self.scheduler.state, lambda job, run: self.run_logs.tail(job, run),
            lambda job, run: unsent_report(paths.jobs, job, run),
        )  # fmt: skip
        self.weaves = WeaveMonitor(lambda: self._weave_pace)
        host = Host(
            self.loop, lambda: self.scheduler.state, paths, settings, self.progress.receive, self.journal.name,
            self.weaves, lambda: self.weave_order, self.files, None if led is None else led.blobs,
            0 if led is None else led.epoch, lambda: self.services.ejected(),
        )  # fmt: skip
        ports = self.ports = build(host)
        self.backend, self.inventory, self.run_logs = ports.backend, ports.inventory, ports.logs
        self.notifications = Notifications(paths.state, lambda: self.scheduler.state, self.files, self._format_place)
        self.loop.on_facts.append(self.notifications.record)
        self.services = LiveServices(self.loop, lambda: self.scheduler.state)
        self.requests = JobRequests(self.loop, paths.batches, lambda: self.commands, self.files)
        self.requests.load(self.scheduler.state.jobs)
        self.commands = self._new_commands()
        self.maintenance = Maintenance(self)
        self.forecasts = ForecastKeeper(
            self.journal.url, lambda: self.settings, self.loop.clock.now, Outcomes(paths.state, self.files.changed)
        )
        self.run_use = RunUse(self.loop, lambda: self.scheduler.state, lambda: self.inventory.readings())
        self.pools = PoolKeeper(self.loop, lambda: self.scheduler, paths.state)
        self.shares = CpuShares(settings.max_cpu_per_user if ports.admission.quotas is not None else 0.0)
        self.stopping = asyncio.Event()
        self._tasks = TaskSet()
        self._reconfiguring = asyncio.Lock()
        self.busy_at = self.loop.clock.now()
        """The last time at which a job was queued or running."""

    def _append_recovered(self, recovery: Recovery) -> None:
        log.warning("%s", recovery.describe())
        self.journal.append(*recovery.facts)
        self.journal.sync()
        self.scheduler = self._build_scheduler()

    def _advance_marker(self, _events: Sequence[Event], _decisions: Sequence[Decision]) -> None:
        self.marker.advance(len(self.journal), self.scheduler.state.highest_id)

    def _build_scheduler(self) -> Scheduler:
        """Return a scheduler with the state of the journal.

        If the policy raises, use FIFO and pause: jobs can still be listed, be cancelled and end.
        """
        try:
            scheduler, self.policy_error = self._scheduler_with(self.settings.policy), ""
        except (InputError, JournalError):
            raise
        except Exception as error:
            log.exception("the policy failed")
            scheduler, self.policy_error = self._scheduler_with("fifo"), describe_failure(error)
            scheduler.state.paused[POLICY_FAILED] = self.policy_error
        return scheduler

    def _scheduler_with(self, policy_name: str) -> Scheduler:
        scheduler = create_scheduler(self.settings, policy_name)
        replay(scheduler, self.journal, self.runs.record_all)
        return scheduler

    async def retry_policy(self) -> None:
        """Use the policy again if it failed before. Raise if it still fails."""
        if self.policy_error:
            async with self._reconfiguring:
                await self._replace_scheduler(self.settings, "the policy still fails")

    def _new_commands(self) -> JobCommands:
        admission = self.ports.admission
        rules = admission.rules(self.scheduler)
        return JobCommands(
            self.scheduler, rules, admission.quotas, self.requests.open_batches, self._min_id, self.notifications.check
        )  # fmt: skip

    def _format_place(self, slots: Slots) -> str:
        return format_slots(self.inventory.numbers.renumbered(slots))

    @property
    def weave_order(self) -> str:
        """The order in which members of weaves take turns: as the policy says, or the default."""
        return getattr(self.scheduler.policy, "turns", "") or DEFAULT_ORDER

    @property
    def _weave_pace(self) -> Pace | Rates | None:
        """The iteration times of weaves as the policy counts them; None: it does not."""
        pace = getattr(self.scheduler.policy, "pace", None)
        return pace if isinstance(pace, Pace | Rates) else None

    def _execute(self, order: Order) -> None:
        self.backend.execute(order)

    # ---- opening and closing

    async def open(self) -> None:
        """Find the runs and GPUs of the backend, then start deciding."""
        self.loop.on_failure = self._recover
        await self.backend.open(dict(self.scheduler.state.active))
        self.maintenance.open()
        self.run_use.open()
        self.loop.restore_alarm()
        self.loop.wake()
        self.loop.open()
        self.services.open()
        self.progress.early_stopping.open()
        await self.notifications.open()
        self.requests.resume()

    def stop(self) -> None:
        """Ask the server to end: `until_done` returns."""
        self.ports.leave()
        self.stopping.set()

    async def close(self) -> None:
        await self.pools.close()
        await self.forecasts.close()
        await self.requests.close()
        await self.services.close()
        await self.loop.close()
        await self.notifications.close()
        await self._tasks.close()
        await self.maintenance.close()
        await self.run_use.close()
        await self.backend.close()
        self.journal.close()
        self.marker.close()

    # ---- recovery

    def _recover(self, error: Exception) -> None:
        """Rebuild the state from the journal, because memory is ahead of it, and find the runs again. A deposed leader
        ends instead: another server has the state."""
        if isinstance(error, Deposed):
            log.error("%s", error)
            self.stopping.set()
            return
        wait_s = self._rebuilt_until - time.monotonic()
        if wait_s > 0 and isinstance(error, JournalError):
            log.error("%s; trying again in %.0f s", error, wait_s)
            self.loop.refuse(
                Refused(f"{error}\n  nothing was changed; free some space and try again in {wait_s:.0f} s")
            )
            self._tasks.spawn(self._rebuild_later(wait_s))
            return
        log.error("%s; rebuilding the state from the journal", error)
        began = time.monotonic()
        self._rebuild()
        took_s = time.monotonic() - began
        self._rebuilt_until = began + min(max(took_s / MAX_REBUILD_SHARE, RETRY_S), MAX_REBUILD_PAUSE_S)
        asyncio.get_running_loop().call_later(RETRY_S, self._reopen_backend)

    async def _rebuild_later(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        self._recover(JournalError("the journal could not be written"))

    def _rebuild(self) -> None:
        old, before = self.scheduler, self.commands
        self.scheduler = self.loop.scheduler = self._build_scheduler()
        self.commands = self._new_commands()
        before.follow(self.scheduler, self.ports.admission.rules(self.scheduler))  # requests that it takes up just now
        self.ports.reset()
        self.loop.refuse(None)
        self._tasks.spawn(in_slices(dispose_scheduler(old)))

    def _reopen_backend(self) -> None:
        task = self._tasks.spawn(self.backend.open(dict(self.scheduler.state.active)))
        task.add_done_callback(lambda _: self.loop.wake())

    @property
    def trouble(self) -> str:
        """Reason why no job starts or no end is recorded, in words; empty: none."""
        if self.loop.trouble:
            return (
                f"the scheduler cannot record what happens: {self.loop.trouble}\n  it goes on once there is free space"
            )
        detail = self.scheduler.state.paused.get(DISK_FLOOR, "")
        return f"no job starts: {detail}\n  free some space" if detail else ""

    def check_disk_space(self) -> None:
        """Raise if the disk is too full to accept jobs."""
        found = os.statvfs(self.paths.state)
        if found.f_bavail * found.f_frsize < MIN_FREE_MB << 20:
            raise Refused(
                f"less than {MIN_FREE_MB} MB of disk space is left at {self.paths.state}\n"
                "  nothing was queued; free some space"
            )

    # ---- settings and lifetime

    async def apply_settings(self, **changes: Any) -> None:
        """Use the settings with these changes from now on. Raise, and change nothing, if that is not possible."""
        async with self._reconfiguring:
            settings = changed(self.settings, **changes)
            self.ports.admission.check_settings(settings)
            await self._replace_scheduler(settings)
            self.files.changed(save(self.paths.state, settings))

    async def _replace_scheduler(self, settings: Settings, failure: str = "the policy fails") -> None:
        """Prepare another scheduler in slices, then swap it in at once."""
        try:
            prepared = prepare_scheduler(settings, self.journal)
            # facts that wait for a network are read in a thread
            ready = await (asyncio.to_thread(at_once, prepared) if self.journal.waits else in_slices(prepared))
            await self.loop.until_written()
            scheduler = at_once(ready.catch_up(self.journal))
        except (InputError, JournalError):
            raise
        except Exception as error:
            log.exception("the policy failed")
            raise Refused(f"{failure}: {describe_failure(error)}") from None
        old, self.settings = self.scheduler, settings
        self.policy, self.policy_error = settings.policy, ""
        self.scheduler = self.loop.scheduler = scheduler
        self.commands.follow(scheduler, self.ports.admission.rules(scheduler))
        self.loop.restore_alarm()
        self.loop.wake()
        self._tasks.spawn(in_slices(dispose_scheduler(old)))

    def progress_of(self, job: JobState) -> ProgressView | None:
        return self.progress.of(job) if job.run else None

    def is_idle(self) -> bool:
        state = self.scheduler.state
        return len(state.ended) == len(state.jobs) and not state.services.by_name

    async def until_done(self, last_call_at: Callable[[], float]) -> None:
        """Return when the server must end: `stop` was called, or it was idle for `settings.idle_s`."""
        idle_s = self.settings.idle_s
        while not self.stopping.is_set():
            try:
                await asyncio.wait_for(self.stopping.wait(), timeout=min(idle_s / 4, 5.0) if idle_s else None)
            except TimeoutError:
                now = self.loop.clock.now()
                if not self.is_idle() or self.notifications.pending:
                    self.busy_at = now
                if now - max(self.busy_at, last_call_at()) > idle_s:
                    log.info("nothing to do for %.0f s", idle_s)
                    return
