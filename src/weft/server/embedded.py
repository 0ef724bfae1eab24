"""Runs on this machine, in the scheduler's own hands: the scheduler that every command starts by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.engines.process.gpu.devices import load_devices, save_devices
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.gpu.monitor import RunKey
from weft.engines.process.gpu.nvml import NoDriver, Nvml
from weft.engines.process.gpu.poller import Holding, Sentry
from weft.engines.process.logs import MISSING, LogPart, log_path, read_part
from weft.engines.process.progress_socket import ProgressSocket
from weft.model import Decision, Event, JobId, NodeId, NodeJoined, NodeLost, Resumed, Seconds
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.hands import Finding, Hands
from weft.server.jobs.admission import OneMachine
from weft.server.jobs.quotas import Limits
from weft.server.loop import CLOSING
from weft.server.settings import Settings

if TYPE_CHECKING:
    from weft.server.controller import Running

TAIL: Final = 8192
log = logging.getLogger(__name__)


class Embedded:
    def __init__(self, machine: Machine, nvml: Nvml | NoDriver) -> None:
        self.machine, self._nvml = machine, nvml
        self.numbers = GpuNumbers()

    limits: Limits | None = None

    def check(self, settings: Settings) -> None:
        """Whatever a policy can do, one machine can."""

    def settle(self, running: Running) -> None:
        self._running = running
        places = running.places
        self.machine = self._as_known(running.scheduler.state)
        self.node = self.machine.node
        self.numbers.know(self.node.id, [device.index for device in self.machine.devices])
        self.hands = Hands(self.machine, places.jobs, places.runtime, places.progress)
        self.sentry = Sentry(self.machine, self._nvml, self.hands.engine, foreign=running.settings.foreign)
        self.sentry.holdings = self._holdings
        self._progress = ProgressSocket(places.progress, running.progress.take)

    def _as_known(self, state: State) -> Machine:
        """The machine as the journal knows it, where it has the same GPUs, or where those are in use."""
        machine, folder = self.machine, self._running.places.state
        known = next((room.node for room in state.resources.nodes if room.alive), None)
        before = load_devices(folder)
        same = known is not None and known.gpus == machine.node.gpus and before in ((), machine.devices)
        if known is not None and not same and state.active and len(before) == len(known.gpus):
            note = "other GPUs than before, but jobs run on those: they change with the first start after these jobs"
            log.warning("%s", note)
            return replace(machine, node=known, devices=before, note=note)
        save_devices(folder, machine.devices)
        if known is None or not same:
            return machine
        return replace(machine, node=known if state.active else replace(machine.node, id=known.id))

    # ---- opening and closing

    async def open(self) -> None:
        running, engine = self._running, self.hands.engine
        state = running.scheduler.state
        self.hands.serve(state, running.loop.tell)
        await engine.open()
        self._progress.open()
        running.loop.tell(self._joining)
        await engine.adopt([(job.id, job.run) for job in state.active.values()])
        for job in [job for job in state.active.values() if job.releasing]:
            engine.stop(job.id, job.run, job.stop_why)
        self.sentry.start_over(self._blocks())
        await self.sentry.open(running.loop.tell)
        if self.sentry.awake:
            self.hands.after_exit = lambda report: self._look((report.job, report.run))

    async def _look(self, ended: RunKey) -> Finding:
        return await self.sentry.look(ended)

    def _joining(self, now: Seconds) -> list[Event]:
        """The node joins, unless it is there as it was."""
        state = self._running.scheduler.state
        living = [room.node for room in state.resources.nodes if room.alive]
        events: list[Event] = [Resumed(now, CLOSING)] if CLOSING in state.paused else []
        if living == [self.node]:
            return events
        return [*events, *(NodeLost(now, node.id) for node in living), NodeJoined(now, self.node)]

    def leave(self) -> None:
        """The scheduler was told to stop: a SIGTERM that ends runs now is not theirs."""
        self.hands.engine.leave()

    async def close(self) -> None:
        self._progress.close()
        await self.sentry.close()
        await self.hands.engine.close()

    # ---- when the state was made anew

    def start_over(self, *, same: bool) -> None:  # noqa: ARG002
        self.hands.serve(self._running.scheduler.state, self._running.loop.tell)
        self.sentry.start_over(self._blocks())

    def _blocks(self) -> list[tuple[int, str]]:
        return [(gpu, why) for node, gpu, why in self._running.scheduler.state.occupants if node == self.node.id]

    async def find_again(self) -> None:
        engine, active = self.hands.engine, self._running.scheduler.state.active.values()
        await engine.adopt([(job.id, job.run) for job in active if (job.id, job.run) not in engine.runs])

    # ---- what is done

    def carry_out(self, decision: Decision) -> None:
        self.hands.carry_out(decision)

    def kill_all(self) -> None:
        self.hands.engine.kill_all()

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Upkeep removes their folders."""

    def site(self) -> OneMachine:
        return OneMachine(self.node, self.numbers, self._running.scheduler.placement)

    # ---- what is known

    def _holdings(self) -> dict[RunKey, Holding]:
        found = {}
        for job in self._running.scheduler.state.active.values():
            gpus = tuple(gpu for _, each in job.slots for gpu in each)
            memory: int | Sequence[int] = job.allocation.memory_mb
            found[job.id, job.run] = Holding(gpus, job.started_at, memory if isinstance(memory, int) else max(memory))
        return found

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        return {(self.node.id, gpu): reading for gpu, reading in self.sentry.readings().items()}

    def tail(self, job: JobId, run: int) -> bytes:
        path = self._log(job, run)
        size = read_part(path, most=0).size
        return read_part(path, max(size - TAIL, 0)).text

    async def read_log(self, job: JobState, run: int, _rank: int, offset: int, lines: int) -> LogPart | None:
        return read_part(self._log(job.id, run), offset, lines=lines)

    def kept_log(self, _job: JobState, _run: int, _rank: int, _lines: int) -> LogPart:
        return MISSING

    def _log(self, job: JobId, run: int) -> str:
        return log_path(str(self._running.places.jobs), job, run)

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        return {}

    def about(self) -> dict[str, Any]:
        node = self.node
        return {
            "node": node.id,
            "gpus": [{"model": gpu.model, "memory_mb": gpu.memory_mb} for gpu in node.gpus],
            "gpus_from": self.machine.source,
            "driver": self.machine.note or "ok",
            "cpus": node.cpus,
            "ram_mb": node.ram_mb,
        }
