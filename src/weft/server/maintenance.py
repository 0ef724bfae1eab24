"""Periodic maintenance: compact and back up the journal, purge old jobs, remove their folders, watch the disk."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings
from weft.history.journal import Journal, for_process, store_at
from weft.model import Event, Paused, Purged, Resumed
from weft.node.care.restore import folder_number
from weft.node.engine.background import TaskSet
from weft.node.engine.output.logs import RUNS_KEPT, remove_old_runs
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.state import State
from weft.server.backends.base import RunLogs
from weft.server.jobs.commands import JobCommands
from weft.server.jobs.progress import Progress
from weft.server.loop import Loop
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT
from weft.server.process.memory import MemoryReturn
from weft.server.shared_files import SharedFiles

PERIOD_S: Final = 5.0
MIN_COMPACTION_FACTS: Final = 50_000
"""A journal with fewer facts is not compacted."""
COMPACTION_FACTS_PER_JOB: Final = 6
"""A journal with fewer facts per job is not compacted: a job takes about four facts, and one in a snapshot."""
MIN_FREE_MB: Final = 16
"""With less free disk space than this, no run is started."""
MAX_REMOVED_FOLDERS: Final = 1000
"""The most folders that one call in a thread removes."""
EXIT_TRY_LATER: Final = 75
"""The exit code of a journal tool that must be run again later."""
MAX_PURGED_JOBS: Final = 1000
"""The most jobs that one turn purges."""
BACKUP_PERIOD_S: Final = 86400.0
BACKUP_DELAY_S: Final = 60.0
"""The least time from the start of the server, which has more urgent work then, to the first backup."""
log = logging.getLogger(__name__)


def used_blobs(state: State) -> set[str]:
    """Return the blobs that jobs need: source trees, and the standard input of jobs that have not ended."""
    jobs = [(job, job.job.task) for job in state.jobs.values() if job.job.task is not None]
    trees = {task.snapshot for _, task in jobs}
    return trees | {task.stdin for job, task in jobs if task.stdin and job.ended_at is None}


class Maintained(Protocol):
    """The parts of the controller that maintenance works on."""

    paths: Paths
    settings: Settings
    scheduler: Scheduler
    journal: Journal
    loop: Loop
    commands: JobCommands
    progress: Progress
    run_logs: RunLogs
    files: SharedFiles


class Maintenance:
    def __init__(self, controller: Maintained) -> None:
        self._controller = controller
        self._tasks = TaskSet()
        self._to_remove: set[str] = set()
        """Jobs whose folders must be removed once the state no longer has the jobs."""
        self._opened_at = time.monotonic()
        self._memory = MemoryReturn()

    def open(self) -> None:
        state = self._controller.scheduler.state
        self._to_remove.update(
            entry.name
            for entry in os.scandir(self._controller.paths.jobs)
            # a folder with a number above all ids belongs to a job of a lost journal, which may still run
            if entry.name not in state.jobs and folder_number(entry.name) <= state.highest_id
        )
        self._tasks.every(PERIOD_S, self._turn, "maintenance")
        self._tasks.every(PERIOD_S, self._memory.check, "giving memory back")

    async def close(self) -> None:
        await self._tasks.close()

    async def _turn(self) -> None:
        self._check_disk()
        self._purge_old()
        self._controller.progress.prune(self._controller.scheduler.state.jobs)
        await self._remove_folders()
        await self._remove_old_runs()
        await self._compact()
        await self._back_up()

    # ---- the disk

    def _check_disk(self) -> None:
        """Pause the scheduler while the disk is nearly full: runs would fail to start."""
        controller = self._controller
        paused = DISK_FLOOR in controller.scheduler.state.paused
        found = os.statvfs(controller.paths.state)
        free_mb = found.f_bavail * found.f_frsize >> 20
        if free_mb < MIN_FREE_MB and not paused:
            detail = f"less than {MIN_FREE_MB} MB of disk space is left at {controller.paths.state}"
            controller.loop.post(lambda now: [Paused(now, DISK_FLOOR, detail)])
        elif free_mb >= 2 * MIN_FREE_MB and paused:
            controller.loop.post(lambda now: [Resumed(now, DISK_FLOOR)])
        if FILE_LIMIT in controller.scheduler.state.paused:
            controller.loop.post(lambda now: [Resumed(now, FILE_LIMIT)])

    # ---- old jobs and runs

    def remove_later(self, jobs: tuple[str, ...]) -> None:
        """Remove the folders of these jobs once they are purged."""
        self._to_remove.update(jobs)

    def _purge_old(self) -> None:
        controller = self._controller
        cutoff = controller.loop.clock.now() - controller.settings.keep_s
        old: list[str] = []
        for job in controller.scheduler.state.ended.values():
            if (job.ended_at or 0.0) >= cutoff or len(old) >= MAX_PURGED_JOBS:
                break
            old.append(job.id)
        if old:
            controller.loop.post(lambda now: self._purge(now, tuple(old)))

    def _purge(self, now: float, jobs: tuple[str, ...]) -> list[Event]:
        self.remove_later(jobs)
        return [Purged(now, jobs)]

    async def _remove_folders(self) -> None:
        jobs, known = self._controller.paths.jobs, self._controller.scheduler.state.jobs
        purged = [job for job in self._to_remove if job not in known]
        if purged:
            self._controller.commands.prune()
        found = set(await asyncio.to_thread(os.listdir, jobs)) if purged else ()  # a job that never ran has no folder
        while purged:
            some = purged[-MAX_REMOVED_FOLDERS:]
            del purged[-MAX_REMOVED_FOLDERS:]
            self._controller.run_logs.forget(some)
            await asyncio.to_thread(_remove_all, [jobs / job for job in some if job in found])
            self._controller.files.removed(*(jobs / job for job in some))
            self._to_remove.difference_update(some)

    async def _remove_old_runs(self) -> None:
        """Remove the folders of old runs. Only jobs that hold GPUs get new runs, so only they can have too many."""
        last = {job.id: job.run for job in self._controller.scheduler.state.active.values() if job.run > RUNS_KEPT}
        for job, run in last.items():
            await asyncio.to_thread(remove_old_runs, str(self._controller.paths.jobs / job), run)

    # ---- the journal

    async def _compact(self) -> None:
        controller = self._controller
        facts = len(controller.journal) - controller.journal.base
        if facts < max(MIN_COMPACTION_FACTS, COMPACTION_FACTS_PER_JOB * len(controller.scheduler.state.jobs)):
            return
        code = await self._run_journal_tool("compact")
        if code == EXIT_TRY_LATER:
            log.info("the journal is busy; it is compacted later")
        elif code:
            log.error("could not compact the journal: exit code %s", code)
        else:
            log.info("compacted %d facts of the journal", facts)

    async def _back_up(self) -> None:
        """Back the journal up once a day, or soon after the start if the last backup is older."""
        if time.monotonic() - self._opened_at < BACKUP_DELAY_S:
            return
        last = await asyncio.to_thread(store_at(self._controller.paths.journal_url).backup_at)
        if last is not None and time.time() - last < BACKUP_PERIOD_S:
            return
        code = await self._run_journal_tool("backup")
        log.log(logging.ERROR if code else logging.INFO, "backed up the journal: exit code %s", code)

    async def _run_journal_tool(self, verb: str) -> int:
        """Run `python -m weft.history.journal` in a process of low priority. Return its exit code."""
        url, variables = for_process(self._controller.paths.journal_url)
        command = (sys.executable, "-m", "weft.history.journal", verb, url)
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **variables})
        return await process.wait()


def _remove_all(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
