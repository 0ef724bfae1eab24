"""Decisions in, news out: the local engine as the loop sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from weft.core.state import State
from weft.local.engine import LocalEngine
from weft.local.exits import exited
from weft.local.order import GRACE_S, PREEMPT_GRACE_S, RunOrder
from weft.local.reports import Report, RunExited, RunStarted
from weft.model import Decision, Event, Node, Seconds, Start, Started, Stop, Task

Tell = Callable[[Callable[[Seconds], Sequence[Event]]], None]


class Hands:
    """Carries decisions out on this machine."""

    def __init__(self, node: Node, uuids: Sequence[str], jobs: Path, runtime: Path, progress: Path) -> None:
        self._node, self._uuids, self._progress = node, tuple(uuids), str(progress)
        self.engine = LocalEngine(node.id, jobs, runtime, self._report)
        self._state: State | None = None
        self._tell: Tell | None = None

    def serve(self, state: State, tell: Tell) -> None:
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
        memory = job.seat.memory_mb
        return RunOrder(
            job=job.id,
            run=start.run,
            argv=job.job.command,
            env=task.env,
            chdir=task.chdir,
            name=job.job.name,
            gpus=gpus,
            gpu_uuids=tuple(self._uuids[gpu] for gpu in gpus) if self._uuids else (),
            memory_mb=max(memory, default=0) if isinstance(memory, tuple) else memory,
            params=job.job.params,
            restarts=start.run - 1,
            array_index=task.array_index,
            array_size=task.array_size,
            time_limit_s=task.time_limit_s,
            grace_s=GRACE_S if task.grace_s is None else task.grace_s,
            preempt_grace_s=PREEMPT_GRACE_S if task.grace_s is None else task.grace_s,
            socket=self._progress,
        )

    def _report(self, report: Report) -> None:
        assert self._tell is not None
        self._tell(lambda now: self._events(report, now))

    def _events(self, report: Report, now: Seconds) -> list[Event]:
        assert self._state is not None
        job = self._state.jobs.get(report.job)
        if isinstance(report, RunStarted):
            if job is not None and job.status == "running":  # adopted: it has been told already
                return []
            return [Started(now, report.job, report.run)]
        return [self._exit(report, now)]

    def _exit(self, report: RunExited, now: Seconds) -> Event:
        assert self._state is not None
        job = self._state.jobs.get(report.job)
        task = (job.job.task if job is not None else None) or Task()
        tries = job.requeues if job is not None else 0
        fact = exited(report, requeue_exits=task.requeue_exits, tries=tries)
        return type(fact)(now, fact.job, fact.run, fact.how, fact.remaining_s, fact.code, fact.why)
