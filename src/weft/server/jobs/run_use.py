"""The use of GPUs by runs: samples of the drivers' readings, added up for each run and journalled when it ends.

A sample costs as much as there are GPUs in use, every `SAMPLE_S`. The energy that a GPU counts between two samples is
divided among the runs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weft.model import Decision, Event, Exited, JobId, NodeId, Seconds, Use, Used
from weft.node.engine.background import TaskSet
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.loop import Loop
from weft.views.from_state.measured import GpuUsage

SAMPLE_S: Final = 10.0
Readings = Mapping[tuple[NodeId, int], GpuUsage]
RunKey = tuple[JobId, int]


class UseMeter:
    """Adds up samples. Pure: the state, readings and the time in; the use of runs out."""

    def __init__(self) -> None:
        self._uses: dict[RunKey, Use] = {}
        self._at: Seconds | None = None
        self._energy_j: dict[tuple[NodeId, int], float] = {}

    def sample(self, state: State, readings: Readings, now: Seconds) -> None:
        """Count the time since the last sample as these readings are."""
        elapsed_s = 0.0 if self._at is None else now - self._at
        self._at = now
        runs = [job for job in state.active.values() if job.status == "running" and job.slots]
        holders: dict[tuple[NodeId, int], int] = {}
        for job in runs:
            for gpu in _gpus(job):
                holders[gpu] = holders.get(gpu, 0) + 1
        spent_j = self._spent_j(readings)
        for job in runs:
            length_s = min(elapsed_s, now - job.started_at)
            use = _use(job, readings, holders, spent_j, length_s)
            key = job.id, job.run
            self._uses[key] = self._uses[key].plus(use) if key in self._uses else use

    def _spent_j(self, readings: Readings) -> dict[tuple[NodeId, int], float]:
        """Return the energy of each GPU since the last sample. A counter that was reset counts from then."""
        now = {gpu: usage.energy_j for gpu, usage in readings.items() if usage.energy_j is not None}
        spent = {gpu: total - self._energy_j[gpu] for gpu, total in now.items() if gpu in self._energy_j}
        self._energy_j = now
        return {gpu: joules for gpu, joules in spent.items() if joules >= 0}

    def take(self, key: RunKey) -> Use | None:
        """Return the use of a run that has ended; None: there is nothing to tell."""
        use = self._uses.pop(key, None)
        return use if use is not None and (use.sampled_s or use.memory_mb or use.metered_s) else None

    def take_ended(self, state: State) -> list[tuple[RunKey, Use]]:
        """Return the use of runs that ended without an exit, such as those of lost nodes."""
        gone = [key for key in self._uses if state.running(*key) is None]
        return [(key, use) for key in gone if (use := self.take(key)) is not None]


def _gpus(job: JobState) -> list[tuple[NodeId, int]]:
    return [(node, gpu) for node, gpus in job.slots for gpu in gpus]


def _use(
    job: JobState, readings: Readings, holders: Mapping[tuple[NodeId, int], int],
    spent_j: Mapping[tuple[NodeId, int], float], elapsed_s: float,
) -> Use:  # fmt: skip
    gpus = _gpus(job)
    found = [readings[gpu] for gpu in gpus if gpu in readings]
    rates = [usage.utilisation / 100.0 for usage in found if usage.utilisation is not None]
    alone_mb = [readings[gpu].used_mb or 0 for gpu in gpus if gpu in readings and holders[gpu] == 1]
    metered = [gpu for gpu in gpus if gpu in spent_j]
    return Use(
        sampled_s=elapsed_s if rates else 0.0,
        busy_s=elapsed_s * sum(rates) / len(rates) if rates else 0.0,
        memory_mb=max(alone_mb, default=0) or job.measured_mb,
        metered_s=elapsed_s if metered else 0.0,
        energy_j=sum(spent_j[gpu] / holders[gpu] for gpu in metered),
    )


class RunUse:
    """Samples the GPUs of a server's runs."""

    def __init__(self, loop: Loop, state: Callable[[], State], readings: Callable[[], Readings]) -> None:
        self._loop, self._state, self._readings = loop, state, readings
        self._meter, self._tasks = UseMeter(), TaskSet()
        loop.on_facts.append(self.record)

    def open(self) -> None:
        self._tasks.every(SAMPLE_S, self.sample, "sampling the use of GPUs")

    async def close(self) -> None:
        await self._tasks.close()

    def sample(self) -> None:
        state = self._state()
        self._journal(self._meter.take_ended(state))
        self._meter.sample(state, self._readings(), self._loop.clock.now())

    def record(self, events: Sequence[Event], _decisions: Sequence[Decision]) -> None:
        """Journal the use of runs that have just ended."""
        ended = [(event.job, event.run) for event in events if type(event) is Exited]
        self._journal([(key, use) for key in ended if (use := self._meter.take(key)) is not None])

    def _journal(self, uses: Sequence[tuple[RunKey, Use]]) -> None:
        if uses:
            self._loop.post(lambda now: [Used(now, job, run, use) for (job, run), use in uses])
