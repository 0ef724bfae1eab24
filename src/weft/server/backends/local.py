"""Runs on this machine, in the scheduler's own process: the scheduler that every command starts by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.agent.orders import run_order
from weft.agent.runtime import NodeRuntime, NodeSetup, with_gpus_in_use
from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.engines.process.events import Report, RunStarted
from weft.engines.process.exit_rules import exit_event
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.gpu.nvml import NoDriver, Nvml
from weft.engines.process.gpu.poller import FactsAt, HeldGpus
from weft.engines.process.launch_spec import LaunchSpec
from weft.engines.process.output.logs import MISSING, LogPart, log_path, read_part
from weft.model import (
    Event,
    JobId,
    Node,
    NodeId,
    NodeJoined,
    NodeLost,
    Paused,
    Resumed,
    Seconds,
    Start,
    Started,
    Stop,
)
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.backends.base import BackendPorts, BuildBackend, Host, Kill, Order
from weft.server.jobs.admission import SingleNodeRules
from weft.server.jobs.quotas import Quotas
from weft.server.loop import CLOSING
from weft.server.nodes.reconciler import FULL
from weft.server.nodes.run_messages import launch_message
from weft.server.settings import Settings

TAIL_BYTES: Final = 8192


class LocalBackend:
    """The node runtime of this machine, without a wire between it and the scheduler."""

    def __init__(self, host: Host, machine: Machine, nvml: Nvml | NoDriver) -> None:
        self._host = host
        self.machine = as_known(machine, host.paths.state, host.state())
        self.node = self.machine.node
        setup = NodeSetup(nvml, host.settings.foreign, host.loop.clock.now)
        self.runtime = NodeRuntime(self.machine, host.paths, self, setup)
        self._progress_socket = str(host.paths.progress)
        self._is_open = False

    async def open(self, known: Mapping[JobId, JobState]) -> None:
        self._host.loop.tell(self._joining)
        runs = {(job.id, job.run): held_by(job) for job in known.values()}
        if self._is_open:
            there = set(self.runtime.runs)
            await self.runtime.adopt({key: held for key, held in runs.items() if key not in there})
        else:
            self._is_open = True
            await self.runtime.open(runs, self._blocks())
        for job in [job for job in known.values() if job.releasing]:
            self.runtime.stop(job.id, job.run, job.stop_why)

    def _joining(self, now: Seconds) -> list[Event]:
        """The node joins, unless it is there as it was."""
        state = self._host.state()
        living = [room.node for room in state.resources.nodes if room.alive]
        events: list[Event] = [Resumed(now, CLOSING)] if CLOSING in state.paused else []
        if living == [self.node]:
            return events
        return [*events, *(NodeLost(now, node.id) for node in living), NodeJoined(now, self.node)]

    def leave(self) -> None:
        """The scheduler was told to stop: a SIGTERM that ends runs now is not theirs."""
        self.runtime.leave()

    async def close(self) -> None:
        await self.runtime.close()

    def reset(self) -> None:
        self.runtime.forget_gpus(self._blocks())

    def _blocks(self) -> list[tuple[int, str]]:
        return [(gpu, why) for node, gpu, why in self._host.state().occupants if node == self.node.id]

    # ---- decisions in

    def execute(self, order: Order) -> None:
        if isinstance(order, Start):
            self._start(order)
        elif isinstance(order, Stop):
            self.runtime.stop(order.job, order.run, order.why)
        elif isinstance(order, Kill):
            self.runtime.stop(order.job, order.run, "cancelled", 0.0)

    def _start(self, start: Start) -> None:
        job = self._host.state().jobs[start.job]
        gpus = tuple(gpu for _, each in start.slots for gpu in each)
        memory_mb = job.allocation.memory_mb.max
        spec = launch_spec(job, start.run, self.machine, gpus, memory_mb, self._progress_socket)
        self.runtime.hold((start.job, start.run), gpus, memory_mb)
        self.runtime.start(spec)

    # ---- events out

    def run_changed(self, report: Report) -> None:
        self._host.loop.tell(lambda now: self._events(report, now))

    def gpus_changed(self, facts_at: FactsAt) -> None:
        self._host.loop.tell(facts_at)

    def progress_reported(self, body: dict[str, Any]) -> None:
        self._host.progress(body)

    def _events(self, report: Report, now: Seconds) -> list[Event]:
        job = self._host.state().jobs.get(report.job)
        if isinstance(report, RunStarted):
            if job is not None and job.status == "running":  # adopted: that is known already
                return []
            return [Started(now, report.job, report.run)]
        full = FULL.get(report.why)
        task = job.job.task if job else None
        exit_ = exit_event(report, requeue_exits=task.requeue_exits if task else (), tries=job.delays if job else 0)
        return [*([Paused(now, *full)] if full else []), replace(exit_, at=now)]


def launch_spec(
    job: JobState, run: int, machine: Machine, gpus: tuple[int, ...], memory_mb: int, socket: str
) -> LaunchSpec:
    """Return the launch of a run: what an agent would make of its message."""
    message = launch_message(job.job, run, gpus, memory_mb)
    return run_order(message, machine, env={}, tree="", socket=socket, lease="")


def held_by(job: JobState) -> HeldGpus:
    """What a run that has not ended was given of this machine."""
    gpus = tuple(gpu for _, each in job.slots for gpu in each)
    return HeldGpus(gpus, job.started_at, job.allocation.memory_mb.max)


def as_known(machine: Machine, folder: Path, state: State) -> Machine:
    """Return the machine as the journal knows it, if it has the same GPUs or runs use the GPUs that it had."""
    known = next((room.node for room in state.resources.nodes if room.alive), None)
    found = with_gpus_in_use(machine, folder, in_use=known is not None and bool(state.active))
    if known is None or known.gpus != found.node.gpus:
        return replace(found, source=machine.source)
    node = known if state.active else replace(machine.node, id=known.id)
    return replace(found, node=node, source=machine.source)


class LocalInventory:
    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self.numbers = GpuNumbers()
        self.numbers.know(backend.node.id, [device.index for device in backend.machine.devices])

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        return {}

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        node = self._backend.node.id
        return {(node, gpu): reading for gpu, reading in self._backend.runtime.readings().items()}

    def about(self) -> dict[str, Any]:
        machine, node = self._backend.machine, self._backend.node
        return {
            "node": node.id,
            "gpus": [{"model": gpu.model, "memory_mb": gpu.memory_mb} for gpu in node.gpus],
            "gpus_from": machine.source,
            "driver": machine.note or "ok",
            "cpus": node.cpus,
            "ram_mb": node.ram_mb,
        }


class LocalLogs:
    """Logs are files of this machine: always at hand, and removed with the folders of their jobs."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = str(jobs)

    async def read(self, job: JobState, run: int, _rank: int, offset: int, lines: int) -> LogPart | None:
        return read_part(log_path(self._jobs, job.id, run), offset, lines=lines)

    def kept(self, _job: JobState, _run: int, _rank: int, _lines: int) -> LogPart:
        return MISSING

    def tail(self, job: JobId, run: int) -> bytes:
        path = log_path(self._jobs, job, run)
        size = read_part(path, max_bytes=0).size
        return read_part(path, max(size - TAIL_BYTES, 0)).text

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Maintenance removes their folders."""


class LocalAdmission:
    """A job must be able to run on this machine."""

    quotas: Quotas | None = None

    def __init__(self, node: Node, numbers: GpuNumbers) -> None:
        self._node, self._numbers = node, numbers

    def check_settings(self, settings: Settings) -> None:
        """One machine can do whatever a policy asks for."""

    def rules(self, scheduler: Scheduler) -> SingleNodeRules:
        return SingleNodeRules(self._node, self._numbers, scheduler.placement)


def local_backend(machine: Machine, nvml: Nvml | NoDriver) -> BuildBackend:
    """The backend of this machine."""

    def build(host: Host) -> BackendPorts:
        backend = LocalBackend(host, machine, nvml)
        inventory = LocalInventory(backend)
        return BackendPorts(
            backend, inventory, LocalLogs(host.paths.jobs), LocalAdmission(backend.node, inventory.numbers),
            leave=backend.leave, reset=backend.reset,
        )  # fmt: skip

    return build
