"""Decisions in, news out: the local engine as the loop sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.core.state.state import State
from weft.engines.process.engine import LocalEngine
from weft.engines.process.events import Report, RunExited, RunStarted
from weft.engines.process.exit_rules import exited
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.launch_spec import GRACE_S, PREEMPT_GRACE_S, RunOrder
from weft.model import Decision, Event, Paused, Seconds, Start, Started, Stop, Task
from weft.server.loop import DISK_FLOOR, FILE_LIMIT

PAUSES: Final = {
    "disk-full": (DISK_FLOOR, "no space was left to start a job"),
    "no-files": (FILE_LIMIT, "no more files could be opened to start a job"),
}
"""What keeps every job from starting, not only this one. Upkeep ends it."""
log = logging.getLogger(__name__)
Finding = Callable[[Seconds], Sequence[Event]]
"""What was found, once the time is known."""


class Hands:
    """Carries decisions out on this machine."""

    def __init__(self, machine: Machine, jobs: Path, runtime: Path, progress: Path) -> None:
        self._machine, self._progress = machine, str(progress)
        self.engine = LocalEngine(machine.node.id, jobs, runtime, self._report)
        self._state: State | None = None
        self._tell: Callable[[Finding], None] | None = None

        self.after_exit: Callable[[RunExited], Awaitable[Finding]] | None = None
        """Where somebody looks at the GPUs once a run has left them: what is found goes before the exit."""
        self._tasks: set[asyncio.Future[None]] = set()

    def serve(self, state: State, tell: Callable[[Finding], None]) -> None:
        """For whom it works: reports go there."""
        self._state, self._tell = state, tell

    def carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self.engine.start(self._order(decision))
        elif isinstance(decision, Stop):
            self.engine.stop(decision.job, decision.run, decision.why)

    def _order(self, start: Start) -> RunOrder:
        assert self._state is not None
        job = self._state.jobs[start.job]
        task = job.job.task or Task()
        gpus = tuple(gpu for _, each in start.slots for gpu in each)
        memory = job.allocation.memory_mb
        return RunOrder(
            job=job.id,
            run=start.run,
            argv=job.job.command,
            env=task.env,
            chdir=task.chdir,
            name=job.job.name,
            gpus=self._machine.indices(gpus),
            gpu_uuids=self._machine.uuids(gpus),
            memory_mb=max(memory, default=0) if isinstance(memory, tuple) else memory,
            params=job.job.params,
            restarts=start.run - 1,
            array_index=task.array_index,
            array_size=task.array_size,
            time_limit_s=task.time_limit_s,
            grace_s=GRACE_S if task.grace_s is None else task.grace_s,
            preempt_grace_s=PREEMPT_GRACE_S if task.grace_s is None else task.grace_s,
            socket=self._progress,
            per_gpu=task.per_gpu,
        )

    def _report(self, report: Report) -> None:
        assert self._tell is not None
        if isinstance(report, RunExited) and self.after_exit is not None:
            task = asyncio.ensure_future(self._look_then_tell(report, self.after_exit(report)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._tell(lambda now: self._events(report, now))

    async def _look_then_tell(self, report: RunExited, look: Awaitable[Finding]) -> None:
        assert self._tell is not None
        found: Finding = lambda _: ()  # noqa: E731
        try:
            found = await look
        except Exception:
            log.exception("could not look at the GPUs of job %s", report.job)
        self._tell(lambda now: [*found(now), *self._events(report, now)])

    def _events(self, report: Report, now: Seconds) -> list[Event]:
        assert self._state is not None
        job = self._state.jobs.get(report.job)
        if isinstance(report, RunStarted):
            if job is not None and job.status == "running":  # adopted: it has been told already
                return []
            return [Started(now, report.job, report.run)]
        pause = PAUSES.get(report.why)
        task = job.job.task if job else None
        exit_ = exited(report, requeue_exits=task.requeue_exits if task else (), tries=job.delays if job else 0)
        return [*([Paused(now, *pause)] if pause else []), replace(exit_, at=now)]
