"""The runtime of one node: its process engine, GPU poller and progress socket.

The agent of a cluster (`weft.node.agent.worker`) and the backend of this machine (`weft.server.backends.local`) use it.
It knows neither messages nor a scheduler.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from weft.model import Gpu, JobId
from weft.node.agent.ports import Engine
from weft.node.agent.replicas.prober import Prober, ReplicaReport
from weft.node.agent.weaves import WovenRuns
from weft.node.engine.background import TaskSet
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.events import Report, RunExited
from weft.node.engine.gpu.device_files import gpus_of_others
from weft.node.engine.gpu.discovery import Machine, load_devices, save_devices
from weft.node.engine.gpu.ledger import GpuLedger, LedgerWatcher
from weft.node.engine.gpu.locks import GPU_TAKEN
from weft.node.engine.gpu.monitor import Foreign
from weft.node.engine.gpu.nvml import NoDriver, Nvml
from weft.node.engine.gpu.poller import FactsAt, GpuPoller, HeldGpus
from weft.node.engine.gpu.sharing import SharedRun
from weft.node.engine.launch_spec import LaunchSpec, is_valid_job_id
from weft.node.engine.output.progress_socket import ProgressSocket
from weft.node.engine.shim import run_files
from weft.node.engine.users.run_folder import owner_uid
from weft.node.engine.weave_spec import WeaveSpec

RunKey = tuple[JobId, int]
"""A run: job and number."""
DRIVER_NOT_USED: Final = NoDriver("the driver is not used")
GPUS_CHANGED: Final = "the GPUs have changed, but jobs use the previous ones: restart after these jobs"
log = logging.getLogger(__name__)


class NodePaths(Protocol):
    """Paths of a node's run folders and sockets."""

    @property
    def jobs(self) -> Path: ...

    @property
    def runtime(self) -> Path: ...

    @property
    def progress(self) -> Path: ...


class NodeListener(Protocol):
    """Receives everything that happens on a node."""

    def run_changed(self, report: Report) -> None:
        """A run has started or ended. `gpus_changed` was called for its GPUs before."""

    def gpus_changed(self, facts_at: FactsAt) -> None:
        """The GPUs were polled. `facts_at(now)` returns the changes."""

    def replica_changed(self, report: ReplicaReport) -> None:
        """A replica of a service has become ready, or has broken."""

    def progress_reported(self, body: dict[str, Any]) -> None:
        """A run reports progress. Raise an error if the report is invalid."""


@dataclass(frozen=True)
class NodeSetup:
    """The parts of a node's runtime. Tests and benchmarks supply their engine."""

    nvml: Nvml | NoDriver = DRIVER_NOT_USED
    foreign: Foreign = "avoid"
    clock: Callable[[], float] = time.monotonic
    """The clock of the listener, used for `HeldGpus.since`."""
    lease: str = ""
    """The path of the lease of all runs; empty: they have none."""
    ledger: GpuLedger | None = None
    """The locks of GPUs that the schedulers of several users share; None: they share none."""
    sharing: str = "prio"
    """The rule by which training gives way on shared GPUs, one of `device_page.layout.RULES`, perhaps with +idle."""
    engine: Callable[[Callable[[Report], None]], Engine] | None = None
    min_uid: int | None = None
    """Runs use the accounts of their users, if their numbers are at least this; None: that of the worker."""


class NodeRuntime:
    """Starts, stops and adopts the runs of one node, and reports events to the listener."""

    def __init__(
        self, machine: Machine, paths: NodePaths, listener: NodeListener, setup: NodeSetup | None = None
    ) -> None:
        setup = setup or NodeSetup()
        self.machine, self._listener, self._clock = machine, listener, setup.clock
        make = setup.engine or (
            lambda report: ProcessEngine(machine.node.id, paths.jobs, paths.runtime, report, setup.lease)
        )
        self.engine = make(self.report)
        self.ledger = LedgerWatcher(setup.ledger, machine.node.id, machine.devices, listener.gpus_changed)
        self._poller: GpuPoller | None = None
        if isinstance(self.engine, ProcessEngine):
            self.engine.sharing.configure(setup.sharing, has_driver=not isinstance(setup.nvml, NoDriver))
            self._poller = GpuPoller(machine, setup.nvml, self.engine, foreign=setup.foreign)
            self._poller.holdings = lambda: self._holdings
            self._poller.held_by_others = lambda: self.ledger.held_by_others
            if setup.ledger is not None:
                self.engine.gpu_locks = setup.ledger.arguments
            if setup.min_uid is not None:
                self.engine.other_gpus = lambda spec: gpus_of_others(machine.devices, spec.gpus)
        self._holdings: dict[RunKey, HeldGpus] = {}
        """The GPUs that each run holds."""
        self.woven = WovenRuns(paths.jobs)
        self.replicas = Prober(paths.jobs, listener.replica_changed)
        self._progress = ProgressSocket(
            paths.progress, listener.progress_reported, None if setup.min_uid is None else self._owner_uid
        )
        self._jobs = str(paths.jobs)
        self._tasks = TaskSet()

    # ---- opening and closing

    async def open(self, runs: Mapping[RunKey, HeldGpus], blocks: Iterable[tuple[int, str]] = ()) -> None:
        """Adopt these runs of an earlier process, then poll the GPUs. `blocks` lists the known blocks."""
        await self.engine.open()
        self._progress.open()
        await self.adopt(runs)
        self.reset_gpu_blocks(blocks)
        self.ledger.open()
        if self._poller is not None:
            await self._poller.open(self._listener.gpus_changed)

    async def close(self) -> None:
        """Close without stopping the runs."""
        await self._tasks.close()
        await self.replicas.close()
        self._progress.close()
        await self.ledger.close()
        if self._poller is not None:
            await self._poller.close()
        await self.engine.close()

    def begin_node_stop(self, *, leaving: bool = False) -> None:
        """Mark that the node stops: a SIGTERM that ends runs from now on comes from the node.

        Exits are reported only if the node is `leaving`; otherwise the next runtime reports them.
        """
        self.engine.begin_node_stop(leaving=leaving)

    def reset_gpu_blocks(self, blocks: Iterable[tuple[int, str]]) -> None:
        """Report all blocks of GPUs again, except these."""
        blocks = list(blocks)
        self.ledger.reset(blocks)
        if self._poller is not None:
            self._poller.reset(blocks)

    # ---- runs

    @property
    def runs(self) -> tuple[RunKey, ...]:
        """The runs whose exit has not been reported."""
        return tuple(self._holdings)

    def hold(self, key: RunKey, gpus: tuple[int, ...], memory_mb: int) -> None:
        """Assign these GPUs to a run until its exit has been reported."""
        self._holdings[key] = HeldGpus(gpus, self._clock(), memory_mb)

    def start(self, spec: LaunchSpec) -> None:
        """Start a run. Raise InputError for an invalid spec; report everything else."""
        if spec.weave is not None:
            self.woven.add((spec.job, spec.run))
        try:
            self.engine.start(self.replicas.assign(spec))
        except Exception:
            self._holdings.pop((spec.job, spec.run), None)
            raise

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """Stop a run; return False if it is unknown or has ended."""
        return self.engine.stop(job, run, why, grace_s)

    def suspend(self, job: JobId, run: int, suspended: bool) -> bool:
        """Suspend a run, or let it continue; return False if it is unknown or has ended."""
        return self.engine.suspend(job, run, suspended)

    def reweave(self, job: JobId, run: int, weave: WeaveSpec | None) -> bool:
        """Move a run to another weave, or to none; return False if it has ended or nothing could be written."""
        if not self.engine.reweave(job, run, weave):
            return False
        self.woven.add((job, run))
        return True

    async def adopt(self, runs: Mapping[RunKey, HeldGpus]) -> None:
        """Determine and report the state of these runs. A run without a claim never starts."""
        self.woven.find(runs)
        for key, held in runs.items():
            self._holdings.setdefault(key, held)
            self.ledger.stand_in(key, held.gpus)
        await self.engine.adopt(list(runs))

    def report(self, report: Report) -> None:
        """Pass on a report. After an exit, poll the GPUs first."""
        if isinstance(report, RunExited) and report.why == GPU_TAKEN:
            held = self._holdings.get((report.job, report.run))
            self.ledger.on_taken(held.gpus if held is not None else (), report.detail)
        if isinstance(report, RunExited) and self._poller is not None and self._poller.is_enabled:
            self._tasks.spawn(self._poll_then_report(self._poller, report))
        else:
            self._notify(report)

    async def _poll_then_report(self, poller: GpuPoller, report: RunExited) -> None:
        try:
            self._listener.gpus_changed(await poller.poll((report.job, report.run)))
        except Exception:
            log.exception("cannot read the GPUs of job %s", report.job)
        self._notify(report)

    def _notify(self, report: Report) -> None:
        if isinstance(report, RunExited):
            self._holdings.pop((report.job, report.run), None)
            self.ledger.release((report.job, report.run))
            self.woven.discard((report.job, report.run))
            self.replicas.discard((report.job, report.run))
        else:
            self.replicas.watch((report.job, report.run))
        self._listener.run_changed(report)

    def _owner_uid(self, job: str, run: int) -> int:
        return owner_uid(run_files.run_dir(self._jobs, job, run)) if is_valid_job_id(job) else -1

    # ---- GPUs

    def readings(self) -> dict[int, dict[str, Any]]:
        """Return the last reading of each GPU of the node."""
        return self._poller.readings() if self._poller is not None else {}

    def shared_runs(self) -> list[SharedRun]:
        """Return the runs that share GPUs. `gpu` is the place of the GPU among those of the node."""
        if not isinstance(self.engine, ProcessEngine):
            return []
        place = {device.index: at for at, device in enumerate(self.machine.devices)}
        return [replace(run, gpu=place[run.gpu]) for run in self.engine.sharing.shared_runs() if run.gpu in place]


def with_gpus_in_use(machine: Machine, folder: Path, *, in_use: bool, may_gain: bool = False) -> Machine:
    """Return the machine with its previous GPUs if they have changed while runs use them. `folder` stores the GPUs.

    With `may_gain`, GPUs after the previous ones are no such change."""
    before = load_devices(folder)
    has_gained = may_gain and bool(before) and before == machine.devices[: len(before or ())]
    if in_use and before is not None and before != machine.devices and not has_gained:
        log.warning("%s", GPUS_CHANGED)
        gpus = tuple(Gpu(device.model, device.memory_mb) for device in before)
        return replace(
            machine, node=replace(machine.node, gpus=gpus), devices=before, note=GPUS_CHANGED, source="before"
        )
    save_devices(folder, machine.devices)
    return machine
