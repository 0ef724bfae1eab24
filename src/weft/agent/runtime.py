"""One node at work: its process engine, GPU poller and progress socket, wired together.

The agent of a cluster (`weft.agent.worker`) and the backend of this machine (`weft.server.backends.local`) both use it.
It knows neither messages nor a scheduler.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from weft.agent.ports import Engine
from weft.engines.background import TaskSet
from weft.engines.process.engine import ProcessEngine
from weft.engines.process.events import Report, RunExited
from weft.engines.process.gpu.discovery import Machine, load_devices, save_devices
from weft.engines.process.gpu.monitor import Foreign
from weft.engines.process.gpu.nvml import NoDriver, Nvml
from weft.engines.process.gpu.poller import FactsAt, GpuPoller, HeldGpus
from weft.engines.process.launch_spec import LaunchSpec
from weft.engines.process.output.progress_socket import ProgressSocket
from weft.model import Gpu, JobId

RunKey = tuple[JobId, int]
"""A run: job and number."""
NOT_ASKED: Final = NoDriver("the driver is not asked")
CHANGED: Final = "other GPUs than before, but jobs run on those: they change with the first start after these jobs"
log = logging.getLogger(__name__)


class NodePaths(Protocol):
    """Where a node keeps the folders of its runs and its sockets."""

    @property
    def jobs(self) -> Path: ...

    @property
    def runtime(self) -> Path: ...

    @property
    def progress(self) -> Path: ...


class NodeListener(Protocol):
    """Hears of everything that happens on a node."""

    def run_changed(self, report: Report) -> None:
        """A run has started or ended. Of its GPUs `gpus_changed` has told before."""

    def gpus_changed(self, facts_at: FactsAt) -> None:
        """The GPUs were looked at: `facts_at(now)` says what changed."""

    def progress_reported(self, body: dict[str, Any]) -> None:
        """A run says how far it is; raises where that makes no sense."""


@dataclass(frozen=True)
class NodeSetup:
    """How a node runs things; tests and benchmarks bring an engine of their own."""

    nvml: Nvml | NoDriver = NOT_ASKED
    foreign: Foreign = "avoid"
    clock: Callable[[], float] = time.monotonic
    """The clock of the listener: `HeldGpus.since` counts by it."""
    engine: Callable[[Callable[[Report], None]], Engine] | None = None


class NodeRuntime:
    def __init__(
        self, machine: Machine, paths: NodePaths, listener: NodeListener, setup: NodeSetup | None = None
    ) -> None:
        setup = setup or NodeSetup()
        self.machine, self._listener, self._clock = machine, listener, setup.clock
        make = setup.engine or (lambda report: ProcessEngine(machine.node.id, paths.jobs, paths.runtime, report))
        self.engine = make(self.report)
        self._poller: GpuPoller | None = None
        if isinstance(self.engine, ProcessEngine):
            self._poller = GpuPoller(machine, setup.nvml, self.engine, foreign=setup.foreign)
            self._poller.holdings = lambda: self._holdings
        self._holdings: dict[RunKey, HeldGpus] = {}
        """Which GPUs each run was given."""
        self._progress = ProgressSocket(paths.progress, listener.progress_reported)
        self._tasks = TaskSet()

    # ---- opening and closing

    async def open(self, runs: Mapping[RunKey, HeldGpus], blocks: Iterable[tuple[int, str]] = ()) -> None:
        """Adopt these runs of an earlier process, then look at the GPUs. `blocks`: which are known to be blocked."""
        await self.engine.open()
        self._progress.open()
        await self.adopt(runs)
        self.forget_gpus(blocks)
        if self._poller is not None:
            await self._poller.open(self._listener.gpus_changed)

    async def close(self) -> None:
        """Leave the runs alone."""
        await self._tasks.close()
        self._progress.close()
        if self._poller is not None:
            await self._poller.close()
        await self.engine.close()

    def leave(self) -> None:
        """The node was told to stop: a SIGTERM that ends runs now is not theirs."""
        self.engine.begin_node_stop()

    def forget_gpus(self, blocks: Iterable[tuple[int, str]]) -> None:
        """Report all that blocks a GPU again, except for these blocks."""
        if self._poller is not None:
            self._poller.reset(blocks)

    # ---- runs

    @property
    def runs(self) -> tuple[RunKey, ...]:
        """The runs whose end has not been reported."""
        return tuple(self._holdings)

    def hold(self, key: RunKey, gpus: tuple[int, ...], memory_mb: int) -> None:
        """These GPUs belong to this run from now on, until its end has been reported."""
        self._holdings[key] = HeldGpus(gpus, self._clock(), memory_mb)

    def start(self, spec: LaunchSpec) -> None:
        """Raise InputError for a spec that makes no sense; anything else is reported."""
        try:
            self.engine.start(spec)
        except Exception:
            self._holdings.pop((spec.job, spec.run), None)
            raise

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """False: the run is not known here, or has ended."""
        return self.engine.stop(job, run, why, grace_s)

    async def adopt(self, runs: Mapping[RunKey, HeldGpus]) -> None:
        """Find out what became of these runs, and report it. A run that nothing has claimed never starts."""
        for key, holding in runs.items():
            self._holdings.setdefault(key, holding)
        await self.engine.adopt(list(runs))

    def report(self, report: Report) -> None:
        """Pass on what became of a run. The GPUs that it has left are looked at first."""
        if isinstance(report, RunExited) and self._poller is not None and self._poller.is_enabled:
            self._tasks.spawn(self._look_then_end(self._poller, report))
        else:
            self._tell(report)

    async def _look_then_end(self, poller: GpuPoller, report: RunExited) -> None:
        try:
            self._listener.gpus_changed(await poller.poll((report.job, report.run)))
        except Exception:
            log.exception("could not look at the GPUs of job %s", report.job)
        self._tell(report)

    def _tell(self, report: Report) -> None:
        if isinstance(report, RunExited):
            self._holdings.pop((report.job, report.run), None)
        self._listener.run_changed(report)

    # ---- GPUs

    def readings(self) -> dict[int, dict[str, Any]]:
        """What the driver last said of each GPU of the node."""
        return self._poller.readings() if self._poller is not None else {}


def with_gpus_in_use(machine: Machine, folder: Path, *, in_use: bool) -> Machine:
    """Return the machine with the GPUs that it had, if they changed while runs use them. The folder remembers them."""
    before = load_devices(folder)
    if in_use and before and before != machine.devices:
        log.warning("%s", CHANGED)
        gpus = tuple(Gpu(device.model, device.memory_mb) for device in before)
        return replace(machine, node=replace(machine.node, gpus=gpus), devices=before, note=CHANGED, source="before")
    save_devices(folder, machine.devices)
    return machine
