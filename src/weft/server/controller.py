"""A scheduler at work: everything that belongs to it, from the first fact of its journal to the last run it adopts."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Mapping
from typing import Final

from weft.core.queue.order import Protection
from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.endpoints.paths import Paths
from weft.engines.background import TaskSet
from weft.errors import InputError, JournalError, Refused
from weft.journal import Journal, open_journal
from weft.model import Decision
from weft.plugins import registry
from weft.server.admin.operations import operate
from weft.server.auth.identity import Caller
from weft.server.backends.base import BuildBackend, Host
from weft.server.clock import Clock
from weft.server.jobs.commands import JobCommands
from weft.server.jobs.progress import Progress
from weft.server.loop import POLICY_FAILED, RETRY_S, Loop, blame
from weft.server.maintenance import Maintenance
from weft.server.settings import Settings, save
from weft.wire.views.base import Answer
from weft.wire.views.jobs import ProgressView

SPACE_MB: Final = 16
"""With less disk space than this left, nothing new is taken."""
log = logging.getLogger(__name__)


def take_up(scheduler: Scheduler, journal: Journal) -> None:
    """Replays a journal. What comes of it stays: looking for garbage in it would take a quarter of the time."""
    gc.disable()
    try:
        scheduler.replay(journal.read())
    finally:
        gc.enable()
        gc.freeze()


class Controller:
    def __init__(self, paths: Paths, settings: Settings, build: BuildBackend) -> None:
        self.paths, self.settings, self.policy = paths, settings, settings.policy
        self.journal = open_journal(paths.journal_url)
        if self.journal.torn:
            log.warning("%s", self.journal.torn)
        self.policy_failed = ""
        """What the policy raised, while a plain one keeps the books in its place."""
        self.scheduler = self._replayed()
        self.loop = Loop(self.scheduler, self.journal, Clock(self.scheduler.state.now), self._execute)
        self.progress = Progress(self)
        ports = self.ports = build(
            Host(self.loop, lambda: self.scheduler.state, paths, settings, self.progress.take, self.journal.name)
        )
        self.backend, self.inventory, self.run_logs = ports.backend, ports.inventory, ports.logs
        self.commands = self._new_commands()
        self.maintenance = Maintenance(self)
        self.stopping = asyncio.Event()
        self._tasks = TaskSet()
        self.busy_at = self.loop.clock.now()
        """When something was last queued, running or asked."""

    def _replayed(self) -> Scheduler:
        """With a policy that raises, first come first served: paused, but everything can be read, cancelled and end."""
        try:
            scheduler, self.policy_failed = self._with(self.settings.policy), ""
        except (InputError, JournalError):
            raise
        except Exception as error:
            log.exception("the policy failed")
            scheduler, self.policy_failed = self._with("fifo"), blame(error)
            scheduler.state.paused[POLICY_FAILED] = self.policy_failed
        return scheduler

    def _with(self, policy_name: str) -> Scheduler:
        policy = registry.load_policy(policy_name)
        placement = registry.load_placement(self.settings.placement or policy.placement)
        protection = Protection(self.settings.min_run_s, self.settings.max_preemptions)
        interval_s = self.settings.interval_s or None
        scheduler = Scheduler(policy, placement, protection=protection, interval_s=interval_s)
        take_up(scheduler, self.journal)
        return scheduler

    def try_policy_again(self) -> None:
        """After it failed; raises if it still does."""
        if self.policy_failed:
            self._rebuild(same=True)
            if self.policy_failed:
                raise Refused(f"the policy still fails: {self.policy_failed}")

    def _new_commands(self) -> JobCommands:
        admission = self.ports.admission
        return JobCommands(self.scheduler, admission.rules(self.scheduler), admission.quotas)

    def _execute(self, decision: Decision) -> None:
        self.backend.execute(decision)

    # ---- opening and closing

    async def open(self) -> None:
        """Finds its runs and looks at its GPUs before anything new is decided."""
        self.loop.broken = self._broken
        await self.backend.open(dict(self.scheduler.state.active))
        self.maintenance.open()
        self.loop.set_alarm_again()
        self.loop.wake()
        self.loop.open()

    def stop(self) -> None:
        """It was told to end: `until_done` returns."""
        self.ports.leave()
        self.stopping.set()

    async def close(self) -> None:
        self.loop.close()
        await self._tasks.close()
        await self.maintenance.close()
        await self.backend.close()
        self.journal.close()

    # ---- when the disk fails

    def _broken(self, error: Exception) -> None:
        """Memory is ahead of the disk: go back to what the disk says, and find the runs again."""
        log.error("%s; going back to what is on disk", error)
        self._rebuild()
        asyncio.get_running_loop().call_later(RETRY_S, self._find_again)

    def _rebuild(self, *, same: bool = False) -> None:
        gc.unfreeze()  # what was is garbage now
        self._install(self._replayed())
        if not same:
            self.ports.reset()

    def _install(self, scheduler: Scheduler) -> None:
        self.scheduler = self.loop.scheduler = scheduler
        self.commands = self._new_commands()

    def _find_again(self) -> None:
        task = self._tasks.spawn(self.backend.open(dict(self.scheduler.state.active)))
        task.add_done_callback(lambda _: self.loop.wake())

    def check_space(self) -> None:
        found = os.statvfs(self.paths.state)
        if found.f_bavail * found.f_frsize < SPACE_MB << 20:
            raise Refused(
                f"less than {SPACE_MB} MB of disk are left at {self.paths.state}\n  nothing was queued; free some"
            )

    # ---- what others ask of it

    async def operate(self, verb: str, options: Mapping[str, str], who: Caller) -> Answer:
        return await operate(self, verb, options, who)

    def change(self, settings: Settings) -> None:
        """Works with these from now on; raises, and changes nothing, where it cannot."""
        self.ports.admission.check_settings(settings)
        old, self.settings = self.settings, settings
        try:
            scheduler = self._with(settings.policy)
        except Exception as error:
            self.settings = old
            if isinstance(error, InputError):
                raise
            log.exception("the policy failed")
            raise Refused(f"the policy fails: {blame(error)}") from None
        save(self.paths.state, settings)
        self.policy, self.policy_failed = settings.policy, ""
        self._install(scheduler)
        self.loop.set_alarm_again()
        self.loop.wake()

    def progress_of(self, job: JobState) -> ProgressView | None:
        return self.progress.of(job) if job.run else None

    def is_idle(self) -> bool:
        state = self.scheduler.state
        return len(state.ended) == len(state.jobs)

    async def until_done(self, asked_at: Callable[[], float]) -> None:
        """Returns when it is to end: told to, or with nothing to do for long enough."""
        idle_s = self.settings.idle_s
        while not self.stopping.is_set():
            try:
                await asyncio.wait_for(self.stopping.wait(), timeout=min(idle_s / 4, 5.0) if idle_s else None)
            except TimeoutError:
                now = self.loop.clock.now()
                if not self.is_idle():
                    self.busy_at = now
                if now - max(self.busy_at, asked_at()) > idle_s:
                    log.info("nothing to do for %.0f s", idle_s)
                    return
