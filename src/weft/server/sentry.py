"""Looks at the GPUs every now and then, and tells the loop what changed on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from weft.local.gpus import Machine
from weft.local.nvml import NoDriver, Nvml, Reading
from weft.local.tree import trees
from weft.local.watch import GpuWatch, Misplaced, RunKey, RunOnGpus, WatchOptions
from weft.model import Blocked, Event, JobId, Measured, Unblocked

if TYPE_CHECKING:
    from weft.server.running import Running

LOOK_S: Final = 2.0
log = logging.getLogger(__name__)


class Sentry:
    """Where there is no driver it has nothing to look at."""

    def __init__(self, machine: Machine, nvml: Nvml | NoDriver) -> None:
        self._machine, self._nvml = machine, nvml
        self._readings: Mapping[int, Reading] = {}
        self._watch: GpuWatch | None = None
        self._task: asyncio.Task[None] | None = None
        self.misplaced: dict[JobId, int] = {}
        """Jobs with a process on a GPU that they were not given, and which."""

    async def open(self, running: Running) -> None:
        """Looks once at once, so that nothing is started on what has not been looked at."""
        if isinstance(self._nvml, NoDriver):
            return
        self.start_over(running)
        await self._look_and_tell(running)
        self._task = asyncio.get_running_loop().create_task(self._look_again_and_again(running))

    def start_over(self, running: Running) -> None:
        """Believes what the state says was told."""
        if isinstance(self._nvml, NoDriver):
            return
        known = [(gpu, why) for node, gpu, why in running.scheduler.state.occupants if node == running.node.id]
        options = WatchOptions(foreign=running.settings.foreign)
        self._watch = GpuWatch(running.node.id, self._machine.devices, options, known)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not isinstance(self._nvml, NoDriver):
            self._nvml.close()

    def readings(self) -> dict[tuple[str, int], dict[str, Any]]:
        """What the driver says of each GPU of the node."""
        found = {}
        for gpu, device in enumerate(self._machine.devices):
            reading = self._readings.get(device.index)
            if reading is not None:
                found[self._machine.node.id, gpu] = {
                    "used_mb": reading.used_mb, "utilisation": reading.utilisation, "processes": len(reading.processes),
                }  # fmt: skip
        return found

    @property
    def awake(self) -> bool:
        """Whether there is anything to look at."""
        return self._watch is not None

    async def look(self, running: Running, ended: RunKey | None = None) -> Callable[[float], list[Event]]:
        """One look, in a thread: a driver may take its time. Gives the events once the time is known.

        With `ended`, a run that has just ended counts as gone: what is still there of it makes the GPU dirty.
        """
        assert not isinstance(self._nvml, NoDriver)
        self._readings = await asyncio.to_thread(self._nvml.read)
        shims = {key: shim.pid for key, shim in running.hands.engine.runs.items() if shim is not None}
        pids = await asyncio.to_thread(trees, shims)
        if ended is not None:
            self._note_left(running, ended)
        return lambda now: self._events(_runs(running, pids, ended), now)

    def _note_left(self, running: Running, ended: RunKey) -> None:
        job = running.scheduler.state.jobs.get(ended[0])
        if self._watch is not None and job is not None and job.run == ended[1]:
            self._watch.left(gpu for _, gpus in job.slots for gpu in gpus)

    async def _look_again_and_again(self, running: Running) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look_and_tell(running)

    async def _look_and_tell(self, running: Running) -> None:
        try:
            running.loop.tell(await self.look(running))
        except Exception:
            log.exception("could not look at the GPUs")

    def _events(self, runs: Mapping[RunKey, RunOnGpus], now: float) -> list[Event]:
        assert self._watch is not None
        events: list[Event] = []
        for note in self._watch.look(now, self._readings, runs):
            if isinstance(note, Misplaced):
                log.warning("job %s has a process on GPU %d, which it was not given", note.job, note.gpu)
                self.misplaced[note.job] = note.gpu
            elif isinstance(note, Blocked | Unblocked | Measured):
                events.append(note)
        return events


def _runs(running: Running, pids: Mapping[RunKey, frozenset[int]], ended: RunKey | None) -> dict[RunKey, RunOnGpus]:
    found = {}
    for job in running.scheduler.state.active.values():
        if (job.id, job.run) == ended:
            continue
        gpus = tuple(gpu for _, each in job.slots for gpu in each)
        memory = job.seat.memory_mb
        held = max(memory) if isinstance(memory, tuple) else memory
        found[job.id, job.run] = RunOnGpus(gpus, pids.get((job.id, job.run), frozenset()), job.started_at, held)
    return found
