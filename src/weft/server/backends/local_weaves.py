"""The weaves of this machine: the local backend gives runs their weaves and reads their counters, as an agent would."""

from __future__ import annotations

from typing import Final

from weft.model import Event, Seconds
from weft.node.agent.launch import weave_spec
from weft.node.agent.runtime import NodeRuntime
from weft.node.engine.background import TaskSet
from weft.node.engine.weave_spec import WeaveSpec
from weft.scheduling.core.state.job import JobState, weave_id
from weft.server.backends.base import Host
from weft.server.weaves.messages import weave_message

PERIOD_S: Final = 5.0
"""The seconds between two readings of the counters."""


class LocalWeaves:
    def __init__(self, host: Host, runtime: NodeRuntime) -> None:
        self._host, self._runtime = host, runtime
        self._tasks = TaskSet()

    def open(self) -> None:
        """Correct the weaves of runs that were found again, and watch them."""
        self._host.loop.post(self._check)
        self._tasks.every(PERIOD_S, self._watch, "reading the counters of weaves")

    async def close(self) -> None:
        await self._tasks.close()

    def spec(self, job: JobState) -> WeaveSpec | None:
        """Return the weave of a job's present run as the engine takes it; None: it is not woven."""
        return weave_spec(weave_message(job, self._host.state(), self._host.order()))

    def reweave(self, job: JobState) -> None:
        """Give a run the weave that was decided. If the write fails, the next check tries it again."""
        if job.status in ("starting", "running"):
            self._runtime.reweave(job.id, job.run, self.spec(job))

    async def _watch(self) -> None:
        if len(self._runtime.woven):
            self._host.loop.post(self._check)

    def _check(self, now: Seconds) -> list[Event]:
        state, events = self._host.state(), list[Event]()
        for (name, run), weave in self._runtime.woven.reports().items():
            job = state.running(name, run)
            if job is None or job.status != "running":
                continue
            if weave.id != weave_id(job):
                self.reweave(job)
            else:
                events += self._host.weaves.record(state, job, weave.id, weave.stages, now)
        self._host.weaves.prune(state.active)
        return events
