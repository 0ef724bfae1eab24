"""What a scheduler does now and then: shortens its journal, forgets what ended long ago, removes its folders."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.engines.background import TaskSet
from weft.engines.process.output.logs import RUNS_KEPT, remove_old_runs
from weft.journal import store_at
from weft.model import Event, Paused, Purged, Resumed
from weft.server.loop import DISK_FLOOR, FILE_LIMIT

if TYPE_CHECKING:
    from weft.server.controller import Controller

TURN_S: Final = 5.0
FACTS: Final = 50_000
"""Fewer facts than this are not worth the trouble."""
FACTS_PER_JOB: Final = 6
"""A job takes about four facts; a snapshot one."""
FLOOR_MB: Final = 16
EXIT_TRY_LATER: Final = 75
"""The exit code of a maintenance process that is to be tried again later."""
FORGET: Final = 1000
"""At a time."""
BACKUP_S: Final = 86400.0
BACKUP_AFTER_S: Final = 60.0
"""After its start a scheduler has something better to do."""
log = logging.getLogger(__name__)


class Maintenance:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._tasks = TaskSet()
        self._doomed: set[str] = set()
        self._opened_at = time.monotonic()
        self.compactions = 0

    def open(self) -> None:
        known = self._controller.scheduler.state.jobs
        self._doomed.update(entry.name for entry in os.scandir(self._controller.paths.jobs) if entry.name not in known)
        self._tasks.every(TURN_S, self._turn, "maintenance")

    async def close(self) -> None:
        await self._tasks.close()

    async def _turn(self) -> None:
        self._mind_the_disk()
        self._forget_old()
        self._controller.progress.prune(self._controller.scheduler.state.jobs)
        await self._remove_folders()
        await self._remove_old_runs()
        await self._shorten()
        await self._back_up()

    # ---- the disk

    def _mind_the_disk(self) -> None:
        """With little space left nothing new is started: it would only fail."""
        controller = self._controller
        paused = DISK_FLOOR in controller.scheduler.state.paused
        found = os.statvfs(controller.paths.state)
        free_mb = found.f_bavail * found.f_frsize >> 20
        if free_mb < FLOOR_MB and not paused:
            detail = f"less than {FLOOR_MB} MB are left at {controller.paths.state}"
            controller.loop.tell(lambda now: [Paused(now, DISK_FLOOR, detail)])
        elif free_mb >= 2 * FLOOR_MB and paused:
            controller.loop.tell(lambda now: [Resumed(now, DISK_FLOOR)])
        if FILE_LIMIT in controller.scheduler.state.paused:
            controller.loop.tell(lambda now: [Resumed(now, FILE_LIMIT)])

    # ---- what ended long ago

    def forgotten(self, jobs: tuple[str, ...]) -> None:
        """Their folders are to go."""
        self._doomed.update(jobs)

    def _forget_old(self) -> None:
        controller = self._controller
        before = controller.loop.clock.now() - controller.settings.keep_s
        old: list[str] = []
        for job in controller.scheduler.state.ended.values():
            if (job.ended_at or 0.0) >= before or len(old) >= FORGET:
                break
            old.append(job.id)
        if old:
            controller.loop.tell(lambda now: self._forget(now, tuple(old)))

    def _forget(self, now: float, jobs: tuple[str, ...]) -> list[Event]:
        self.forgotten(jobs)
        return [Purged(now, jobs)]

    async def _remove_folders(self) -> None:
        jobs, known = self._controller.paths.jobs, self._controller.scheduler.state.jobs
        gone = [job for job in self._doomed if job not in known]
        if gone:
            self._controller.commands.prune()
            self._controller.run_logs.forget(gone)
        self._doomed.difference_update(gone)
        for job in gone:
            await asyncio.to_thread(_remove, jobs / job)

    async def _remove_old_runs(self) -> None:
        """Only jobs that hold GPUs get new runs: nobody else has more than at the last turn."""
        last = {job.id: job.run for job in self._controller.scheduler.state.active.values() if job.run > RUNS_KEPT}
        for job, run in last.items():
            await asyncio.to_thread(remove_old_runs, str(self._controller.paths.jobs / job), run)

    # ---- the journal

    async def _shorten(self) -> None:
        controller = self._controller
        facts = len(controller.journal) - controller.journal.base
        if facts < max(FACTS, FACTS_PER_JOB * len(controller.scheduler.state.jobs)):
            return
        code = await self._maintain("compact")
        if code == EXIT_TRY_LATER:
            log.info("it was not the moment to shorten the journal")
        elif code:
            log.error("could not shorten the journal: exit code %s", code)
        else:
            self.compactions += 1
            log.info("shortened the journal by %d facts", facts)

    async def _back_up(self) -> None:
        """Once a day, or as soon as it can be where no scheduler ran at that time."""
        if time.monotonic() - self._opened_at < BACKUP_AFTER_S:
            return
        last = store_at(self._controller.paths.journal_url).backup_at()
        if last is not None and time.time() - last < BACKUP_S:
            return
        code = await self._maintain("backup")
        log.log(logging.ERROR if code else logging.INFO, "backed up the journal: exit code %s", code)

    async def _maintain(self, verb: str) -> int:
        """Run a maintenance of the journal in a process that gives way to others; return its exit code."""
        command = (sys.executable, "-m", "weft.journal", verb, self._controller.paths.journal_url)
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
