"""The backend of one machine: runs are started by the server process itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.access.endpoints.config import sharing_setting
from weft.access.server.settings import Settings
from weft.model import (
    Continued,
    Event,
    JobId,
    Node,
    NodeId,
    NodeJoined,
    NodeLost,
    Paused,
    Resumed,
    Rewoven,
    Seconds,
    Start,
    Started,
    Stop,
    Suspended,
    Unwoven,
)
from weft.node.agent.launch import to_launch_spec
from weft.node.agent.replicas.prober import ReplicaReport
from weft.node.agent.runtime import NodeRuntime, NodeSetup, with_gpus_in_use
from weft.node.care.restore import to_record
from weft.node.engine.environment import LOOPBACK
from weft.node.engine.events import Report, RunStarted
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.ledger import GpuLedger
from weft.node.engine.gpu.nvml import NoDriver, Nvml
from weft.node.engine.gpu.poller import FactsAt, HeldGpus
from weft.node.engine.gpu.this_machine import host_name
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.output.logs import MISSING, LogPart, log_path, read_part
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.backends.base import BackendPorts, BuildBackend, Host, Kill, Order
from weft.server.backends.local_weaves import LocalWeaves
from weft.server.jobs.admission import SingleNodeRules
from weft.server.jobs.quotas import Quotas
from weft.server.nodes.reconciler import FULL_NODE
from weft.server.nodes.run_messages import launch_message, put_share
from weft.server.pause_reasons import CLOSING
from weft.server.services.replicas import replica_events
from weft.views.answers.doctor import DeviceView
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import BackendSummary, GpuUsage, NodeConnection, with_shares

MAX_TAIL_BYTES: Final = 8192
LATE_S: Final = 1.0
"""A shorter time between the end of a run and its report counts as part of the run."""


class LocalBackend:
    """The node runtime of this machine, in the process of the scheduler."""

    def __init__(self, host: Host, machine: Machine, nvml: Nvml | NoDriver, shared: str = "") -> None:
        self._host = host
        self.machine = as_known(machine, host.paths.state, host.state())
        self.node = self.machine.node
        ledger = GpuLedger(shared, str(host.paths.state), host_name()) if shared else None
        setup = NodeSetup(nvml, host.settings.foreign, host.loop.clock.now, ledger=ledger, sharing=sharing_setting())
        self.runtime = NodeRuntime(self.machine, host.paths, self, setup)
        self._progress_socket, self._blobs = str(host.paths.progress), str(host.paths.blobs)
        self._weaves = LocalWeaves(host, self.runtime)
        self._is_open = False

    async def open(self, known: Mapping[JobId, JobState]) -> None:
        self._host.loop.post(self._joining)
        runs = {(job.id, job.run): held_by(job) for job in known.values()}
        if self._is_open:
            there = set(self.runtime.runs)
            await self.runtime.adopt({key: held for key, held in runs.items() if key not in there})
        else:
            self._is_open = True
            await self.runtime.open(runs, self._blocks())
            self._weaves.open()
        for job in [job for job in known.values() if job.releasing]:
            self.runtime.stop(job.id, job.run, job.stop_why)

    def _joining(self, now: Seconds) -> list[Event]:
        """Return the events that make this machine the one node of the state; none if it is already."""
        state = self._host.state()
        living = [host.node for host in state.resources.nodes if host.alive]
        events: list[Event] = [Resumed(now, CLOSING)] if CLOSING in state.paused else []
        if living == [self.node]:
            return events
        if len(living) == 1 and has_gained_gpus(living[0], self.node):
            return [*events, NodeJoined(now, self.node)]
        return [*events, *(NodeLost(now, node.id) for node in living), NodeJoined(now, self.node)]

    def leave(self) -> None:
        """The server must stop. A SIGTERM that ends a run from now on was meant for the server."""
        self.runtime.begin_node_stop()

    async def close(self) -> None:
        await self._weaves.close()
        await self.runtime.close()

    def reset(self) -> None:
        self.runtime.reset_gpu_blocks(self._blocks())

    def _blocks(self) -> list[tuple[int, str]]:
        return [(gpu, why) for node, gpu, why in self._host.state().occupants if node == self.node.id]

    # ---- decisions in

    def execute(self, order: Order) -> None:
        if isinstance(order, Start):
            self._start(order)
        elif isinstance(order, Stop):
            self.runtime.stop(order.job, order.run, order.why)
        elif isinstance(order, Suspended | Continued):
            self.runtime.suspend(order.job, order.run, isinstance(order, Suspended))
        elif isinstance(order, Rewoven | Unwoven):
            self._weaves.reweave(self._host.state().jobs[order.job])
        elif isinstance(order, Kill):
            self.runtime.stop(order.job, order.run, "cancelled", 0.0)

    def _start(self, start: Start) -> None:
        job = self._host.state().jobs[start.job]
        gpus = tuple(gpu for _, each in start.slots for gpu in each)
        memory_mb = job.allocation.memory_mb.max
        spec = launch_spec(job, start.run, self.machine, gpus, memory_mb, self._progress_socket, self._blobs)
        spec = replace(spec, health=self._host.state().services.health_of(job))
        spec = replace(spec, record=to_record(job.job, start), weave=self._weaves.spec(job) if start.weave else None)
        self.runtime.hold((start.job, start.run), gpus, memory_mb)
        self.runtime.start(spec)

    # ---- events out

    def run_changed(self, report: Report) -> None:
        self._host.loop.post(lambda now: self._events(report, now))

    def replica_changed(self, report: ReplicaReport) -> None:
        self._host.loop.post(lambda now: self._replica_events(report, now))

    def _replica_events(self, report: ReplicaReport, now: Seconds) -> list[Event]:
        job = self._host.state().running(report.job, report.run)
        return [] if job is None else replica_events(job, report.status, LOOPBACK, now)

    def gpus_changed(self, facts_at: FactsAt) -> None:
        self._host.loop.post(facts_at)

    def progress_reported(self, body: dict[str, Any]) -> None:
        self._host.progress(body)

    def _events(self, report: Report, now: Seconds) -> list[Event]:
        state = self._host.state()
        job = state.jobs.get(report.job)
        if isinstance(report, RunStarted):
            if job is not None and job.status == "running":  # adopted: the state knows it
                return []
            rate = 1.0 if job is None else self._host.weaves.expected_rate(state, job)
            return [Started(now, report.job, report.run, rate)]
        full = FULL_NODE.get(report.why)
        task = job.job.task if job else None
        exit_ = exit_event(report, requeue_exits=task.requeue_exits if task else (), tries=job.delays if job else 0)
        late_s = min(now - report.at, now - job.started_at) if job is not None and report.started_at else 0.0
        exit_ = replace(exit_, at=now, late_s=late_s if late_s >= LATE_S else 0.0)
        return [*([Paused(now, *full)] if full else []), exit_]


def launch_spec(
    job: JobState, run: int, machine: Machine, gpus: tuple[int, ...], memory_mb: int, socket: str, blobs: str = ""
) -> LaunchSpec:
    """Return what to launch, as an agent would derive it from its message."""
    message = launch_message(job.job, run, gpus, memory_mb)
    put_share(message, job)
    return to_launch_spec(message, machine, env={}, tree="", socket=socket, lease="", blobs=blobs)


def held_by(job: JobState) -> HeldGpus:
    """Return what is allocated to a run on this machine."""
    gpus = tuple(gpu for _, each in job.slots for gpu in each)
    return HeldGpus(gpus, job.started_at, job.allocation.memory_mb.max)


def has_gained_gpus(before: Node, node: Node) -> bool:
    """Return whether a node has all its GPUs of before, and others after them."""
    count = len(before.gpus)
    return before.id == node.id and len(node.gpus) > count > 0 and node.gpus[:count] == before.gpus


def as_known(machine: Machine, folder: Path, state: State) -> Machine:
    """Return the machine as the journal knows it, if its GPUs are the same or runs use the old ones."""
    known = next((host.node for host in state.resources.nodes if host.alive), None)
    found = with_gpus_in_use(machine, folder, in_use=known is not None and bool(state.active), may_gain=True)
    if known is None or known.gpus != found.node.gpus:
        return replace(found, source=machine.source)
    node = known if state.active else replace(machine.node, id=known.id)
    return replace(found, node=node, source=machine.source)


class LocalInventory:
    """This machine and its GPUs."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self.numbers = GpuNumbers()
        self.numbers.set_numbers(backend.node.id, [device.index for device in backend.machine.devices])

    def nodes(self) -> Mapping[NodeId, NodeConnection]:
        return {}

    def readings(self) -> Mapping[tuple[NodeId, int], GpuUsage]:
        node, runtime = self._backend.node.id, self._backend.runtime
        found = {
            (node, gpu): GpuUsage(
                reading["used_mb"],
                reading["utilisation"],
                reading["processes"],
                reading["misplaced"],
                energy_j=reading["energy_j"],
            )
            for gpu, reading in runtime.readings().items()
        }
        return with_shares(found, node, runtime.shared_runs())

    def summary(self) -> BackendSummary:
        machine, node = self._backend.machine, self._backend.node
        return BackendSummary(
            node=node.id,
            gpus=[DeviceView(gpu.model, gpu.memory_mb) for gpu in node.gpus],
            gpus_from=machine.source,
            driver=machine.note or "ok",
            cpus=node.cpus,
            ram_mb=node.ram_mb,
            limits=self._backend.runtime.engine.limits(),
            shared=self._backend.runtime.ledger.folder,
            shared_problem=self._backend.runtime.ledger.problem,
        )


class LocalLogs:
    """Logs are files on this machine. They are removed with the folders of their jobs."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = str(jobs)

    async def read(
        self, job: JobState, run: int, _rank: int, offset: int, lines: int, *, stderr: bool = False
    ) -> LogPart | None:
        return read_part(log_path(self._jobs, job.id, run, stderr=stderr), offset, lines=lines)

    def kept(self, _job: JobState, _run: int, _rank: int, _lines: int) -> LogPart:
        return MISSING

    def tail(self, job: JobId, run: int) -> bytes:
        paths = [log_path(self._jobs, job, run, stderr=stderr) for stderr in (False, True)]
        tails = []
        for path in paths:
            size = read_part(path, max_bytes=0).size
            tails.append(read_part(path, max(size - MAX_TAIL_BYTES, 0)).text)
        return b"\n".join(filter(None, tails))

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove nothing: maintenance removes the folders."""


class LocalAdmission:
    """A job must be able to run on this machine."""

    quotas: Quotas | None = None

    def __init__(self, node: Node, numbers: GpuNumbers) -> None:
        self._node, self._numbers = node, numbers

    def check_settings(self, settings: Settings) -> None:
        """Accept all settings: one machine can do what any policy asks for."""

    def rules(self, scheduler: Scheduler) -> SingleNodeRules:
        return SingleNodeRules(self._node, self._numbers, scheduler.placement)


def local_backend(machine: Machine, nvml: Nvml | NoDriver, shared: str = "") -> BuildBackend:
    """Return a function that builds the backend of this machine. `shared` is the folder of the shared GPU ledger."""

    def build(host: Host) -> BackendPorts:
        backend = LocalBackend(host, machine, nvml, shared)
        inventory = LocalInventory(backend)
        return BackendPorts(
            backend, inventory, LocalLogs(host.paths.jobs), LocalAdmission(backend.node, inventory.numbers),
            leave=backend.leave, reset=backend.reset,
        )  # fmt: skip

    return build
