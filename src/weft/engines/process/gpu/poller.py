"""Looks at this machine's GPUs every now and then, and tells what changed on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.engines.background import TaskSet
from weft.engines.process.engine import ProcessEngine
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.gpu.monitor import Foreign, GpuMonitor, Misplaced, MonitorOptions, RunKey, RunOnGpus
from weft.engines.process.gpu.nvml import NoDriver, Nvml, Reading
from weft.engines.process.shim.process_tree import descendant_pids
from weft.model import Blocked, Measured, Seconds, Unblocked

LOOK_S: Final = 2.0
log = logging.getLogger(__name__)
GpuFact = Blocked | Unblocked | Measured
Finding = Callable[[Seconds], Sequence[GpuFact]]
"""What was found, once the time is known."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A run that has not ended, and what it was given of this machine."""

    gpus: tuple[int, ...]
    since: Seconds
    """By the clock of whoever is told."""
    memory_mb: int


class GpuPoller:
    """Where there is no driver it has nothing to look at."""

    def __init__(self, machine: Machine, nvml: Nvml | NoDriver, engine: ProcessEngine, *, foreign: Foreign) -> None:
        self._machine, self._nvml, self._engine, self._foreign = machine, nvml, engine, foreign
        self._readings: Mapping[int, Reading] = {}
        self._watch: GpuMonitor | None = None
        self._tasks = TaskSet()
        self.holdings: Callable[[], Mapping[RunKey, Holding]] = dict
        """Who is meant to be where; asked at every look."""

    async def open(self, tell: Callable[[Finding], None]) -> None:
        """Looks once at once, so that nothing is started on what has not been looked at. `start_over` goes first."""
        if self._watch is not None:
            await self._look_and_tell(tell)
            self._tasks.every(LOOK_S, lambda: self._look_and_tell(tell), "looking at the GPUs")

    def start_over(self, known: Iterable[tuple[int, str]]) -> None:
        """Believes that these GPUs are known to be blocked, each for a reason."""
        if not isinstance(self._nvml, NoDriver):
            options = MonitorOptions(foreign=self._foreign)
            self._watch = GpuMonitor(self._machine.node.id, self._machine.devices, options, known)

    async def close(self) -> None:
        await self._tasks.close()
        if not isinstance(self._nvml, NoDriver):
            self._nvml.close()

    def readings(self) -> dict[int, dict[str, Any]]:
        """What the driver says of each GPU of the node, and which jobs are there that were not given it."""
        found: dict[int, dict[str, Any]] = {}
        strays = sorted((gpu, job) for (job, _), gpu in self._watch.misplaced) if self._watch is not None else ()
        for gpu, device in enumerate(self._machine.devices):
            reading = self._readings.get(device.index)
            if reading is not None:
                found[gpu] = {
                    "used_mb": reading.used_mb, "utilisation": reading.utilisation, "processes": len(reading.processes),
                    "misplaced": [job for on, job in strays if on == gpu],
                }  # fmt: skip
        return found

    @property
    def awake(self) -> bool:
        """Whether there is anything to look at."""
        return self._watch is not None

    async def look(self, ended: RunKey | None = None) -> Finding:
        """One look, in a thread: a driver may take its time.

        With `ended`, a run that has just ended counts as gone: what is still there of it makes the GPU dirty.
        """
        assert not isinstance(self._nvml, NoDriver)
        self._readings = await asyncio.to_thread(self._nvml.read)
        shims = {key: shim.pid for key, shim in self._engine.runs.items() if shim is not None}
        pids = await asyncio.to_thread(descendant_pids, shims)
        left = self.holdings().get(ended) if ended is not None else None
        if self._watch is not None and left is not None:
            self._watch.left(left.gpus)
        return lambda now: self._facts(self._runs(pids, ended), now)

    def _runs(self, pids: Mapping[RunKey, frozenset[int]], ended: RunKey | None) -> dict[RunKey, RunOnGpus]:
        return {
            key: RunOnGpus(held.gpus, pids.get(key, frozenset()), held.since, held.memory_mb)
            for key, held in self.holdings().items()
            if key != ended
        }

    async def _look_and_tell(self, tell: Callable[[Finding], None]) -> None:
        try:
            tell(await self.look())
        except Exception:
            log.exception("could not look at the GPUs")

    def _facts(self, runs: Mapping[RunKey, RunOnGpus], now: Seconds) -> list[GpuFact]:
        assert self._watch is not None
        facts: list[GpuFact] = []
        for note in self._watch.look(now, self._readings, runs):
            if isinstance(note, Misplaced):
                log.warning("job %s has a process on GPU %d, which it was not given", note.job, note.gpu)
            else:
                facts.append(note)
        return facts
