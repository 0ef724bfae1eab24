"""The snapshot that replaces facts when a journal is compacted, and the history without commands and environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from weft.history.metrics.collector import Collector
from weft.history.metrics.work import WorkMeter
from weft.model import Alarm, Fact, Job, JobSnapshot, Seconds, StateSnapshot, Task, Usage
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State


def summary(facts: Iterable[Fact]) -> list[Fact] | None:
    """Return a snapshot of the state after these facts; None at an instant when a key has just changed."""
    found = _Summary(facts)
    return None if found.state.stepped else [*found.snapshot(), Alarm(found.state.now, found.due)]


def public_summary(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield a snapshot of the state, without what is private in a job: commands, folders and environments."""
    for fact in _Summary(facts).snapshot():
        yield replace(fact, job=_public(fact.job)) if isinstance(fact, JobSnapshot) else fact


class _Summary:
    """The state after all facts, with the figures of each job."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.state = State()
        self.due: Seconds | None = None
        """The time of the alarm."""
        self._meter = WorkMeter()
        self._collector = Collector(self._meter.total_s, self.state)
        self._collector.add(self._meter.follow(self._alarms(facts)))
        self._collector.close()

    def _alarms(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        for fact in facts:
            if type(fact) is Alarm:
                self.due = fact.due
            yield fact

    def snapshot(self) -> Iterator[Fact]:
        for fact in snapshot(self.state):
            if type(fact) is JobSnapshot:
                yield replace(fact, usage=self._usage(fact))
            elif type(fact) is StateSnapshot:
                yield replace(fact, gpus=tuple(self._collector.gpu_changes()))
            else:
                yield fact

    def _usage(self, fact: JobSnapshot) -> Usage:
        queued_s, gpu_s, rho, jobs_s, gpus_s = self._collector.usage(fact.job.id)
        work = self._meter.jobs[fact.job.id]
        return Usage(queued_s, gpu_s, work.kept_s, work.run_s, work.spent_s, rho, jobs_s, gpus_s)


def _public(job: Job) -> Job:
    task = job.task and Task(array_index=job.task.array_index, array_size=job.task.array_size, group=job.task.group)
    return replace(job, command=(), task=task)
