"""The GPU poller: reads this machine's GPUs periodically and reports changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.model import Blocked, Measured, Seconds, Unblocked
from weft.node.engine.background import TaskSet
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.monitor import Foreign, GpuMonitor, Misplaced, MonitorOptions, RunKey, RunOnGpus
from weft.node.engine.gpu.nvml import NoDriver, Nvml, Reading

GPU_POLL_S: Final = 2.0
log = logging.getLogger(__name__)
GpuFact = Blocked | Unblocked | Measured
FactsAt = Callable[[Seconds], Sequence[GpuFact]]
"""Returns the facts of one poll, dated with the given time."""


@dataclass(frozen=True, slots=True)
class HeldGpus:
    """The GPUs and memory of this machine that a run holds."""

    gpus: tuple[int, ...]
    since: Seconds
    """Start of the run, on the clock of the receiver of the facts."""
    memory_mb: int


class GpuPoller:
    """Polls the driver and feeds a `GpuMonitor`. Does nothing without a driver."""

    def __init__(self, machine: Machine, nvml: Nvml | NoDriver, engine: ProcessEngine, *, foreign: Foreign) -> None:
        self._machine, self._nvml, self._engine, self._foreign = machine, nvml, engine, foreign
        self._readings: Mapping[int, Reading] = {}
        self._monitor: GpuMonitor | None = None
        self._tasks = TaskSet()
        self.holdings: Callable[[], Mapping[RunKey, HeldGpus]] = dict
        """Returns the GPUs that each run holds; called at every poll."""
        self.held_by_others: Callable[[], frozenset[int]] = frozenset
        """Returns the GPUs that other schedulers hold: processes there are theirs, and not foreign."""

    async def open(self, report: Callable[[FactsAt], None]) -> None:
        """Poll once, so that no run starts on an unchecked GPU, then periodically. `reset` must come first."""
        if self._monitor is not None:
            await self._poll_and_report(report)
            self._tasks.every(GPU_POLL_S, lambda: self._poll_and_report(report), "polling the GPUs")

    def reset(self, known: Iterable[tuple[int, str]]) -> None:
        """Start monitoring with these GPUs known to be blocked, each for a reason."""
        if not isinstance(self._nvml, NoDriver):
            options = MonitorOptions(foreign=self._foreign)
            self._monitor = GpuMonitor(self._machine.node.id, self._machine.devices, options, known)

    async def close(self) -> None:
        await self._tasks.close()
        if not isinstance(self._nvml, NoDriver):
            self._nvml.close()

    def readings(self) -> dict[int, dict[str, Any]]:
        """Return the last reading of each GPU of the node, with the jobs that use it without holding it."""
        found: dict[int, dict[str, Any]] = {}
        misplaced = sorted((gpu, job) for (job, _), gpu in self._monitor.misplaced) if self._monitor is not None else ()
        for gpu, device in enumerate(self._machine.devices):
            reading = self._readings.get(device.index)
            if reading is not None:
                found[gpu] = {
                    "used_mb": reading.used_mb, "utilisation": reading.utilisation, "processes": len(reading.processes),
                    "energy_j": reading.energy_j,
                    "error": reading.error, "misplaced": [job for on, job in misplaced if on == gpu],
                }  # fmt: skip
        return found

    @property
    def is_enabled(self) -> bool:
        """True if there is a driver to poll."""
        return self._monitor is not None

    async def poll(self, ended: RunKey | None = None) -> FactsAt:
        """Poll once, in a thread, because a driver may be slow.

        The run `ended` counts as gone: processes that remain of this run make the GPU dirty.
        """
        assert not isinstance(self._nvml, NoDriver)
        held_by_others = self.held_by_others()
        self._readings = await asyncio.to_thread(self._nvml.read)
        held_by_others |= self.held_by_others()  # a run that began or ended while the driver was read
        shims = {key: shim.pid for key, shim in self._engine.runs.items() if shim is not None}
        pids = await asyncio.to_thread(self._engine.pids_of, shims)
        ended_run = self.holdings().get(ended) if ended is not None else None
        if self._monitor is not None and ended_run is not None:
            self._monitor.mark_used(ended_run.gpus)
        return lambda now: self._facts(self._runs(pids, ended), now, held_by_others)

    def _runs(self, pids: Mapping[RunKey, frozenset[int]], ended: RunKey | None) -> dict[RunKey, RunOnGpus]:
        return {
            key: RunOnGpus(held.gpus, pids.get(key, frozenset()), held.since, held.memory_mb)
            for key, held in self.holdings().items()
            if key != ended
        }

    async def _poll_and_report(self, report: Callable[[FactsAt], None]) -> None:
        try:
            report(await self.poll())
        except Exception:
            log.exception("cannot read the GPUs")

    def _facts(self, runs: Mapping[RunKey, RunOnGpus], now: Seconds, held_by_others: frozenset[int]) -> list[GpuFact]:
        assert self._monitor is not None
        facts: list[GpuFact] = []
        for change in self._monitor.update(now, self._readings, runs, held_by_others):
            if isinstance(change, Misplaced):
                log.warning("job %s has a process on GPU %d, which it does not hold", change.job, change.gpu)
            else:
                facts.append(change)
        return facts
