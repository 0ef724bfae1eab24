"""An agent at work: its state machine, the stream to the scheduler, and the node it is on."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from weft.agent.connection import Backoff, Cut, Dial, Stream, cut_by
from weft.agent.executor import Executor
from weft.agent.logs import Tails, answer
from weft.agent.node_status import NodeStatus
from weft.agent.progress import Reports
from weft.agent.runtime import NodeRuntime, NodeSetup
from weft.agent.state_dir import Folder
from weft.agent.state_machine import Action, Agent, Joined, Lease, Leave, Send, Settle, Start, Stop, Told
from weft.engines.background import TaskSet, repeat
from weft.engines.process import lease
from weft.engines.process.events import Report, RunExited
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.gpu.monitor import Foreign
from weft.engines.process.gpu.nvml import NoDriver, Nvml
from weft.engines.process.gpu.poller import FactsAt
from weft.engines.process.output.logs import RUNS_KEPT
from weft.errors import NotPermitted, Refused, WeftError
from weft.version import VERSION
from weft.wire.messages import AgentMessage, BlobName, GpuBlock, GpuMemory, Kept, NodeSpec, ReadLog, SchedulerMessage
from weft.wire.runs import KEPT_AT_A_TIME, RunKey
from weft.wire.service import call

TICK_S: Final = 1.0
TAIL_S: Final = 5.0
PATIENT: Final = frozenset({"ALREADY_EXISTS"})
"""Refusals that may pass: one that was killed may still seem to be connected for a moment."""
PATIENCE_S: Final = 30.0
NO_ENTRY: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
log = logging.getLogger(__name__)

What = Literal["connected", "cut", "refused"]


@dataclass(frozen=True, slots=True)
class Note:
    """For whoever looks on."""

    what: What
    words: str = ""
    runs: int = 0


class Worker:
    """`dial` opens a channel to the scheduler, once for each connection. `setup`: how the node runs things."""

    def __init__(
        self,
        machine: Machine,
        spec: NodeSpec,
        folder: Folder,
        dial: Dial,
        *,
        setup: NodeSetup | None = None,
        note: Callable[[Note], None] = lambda _: None,
    ) -> None:
        self._folder, self._dial, self._note = folder, dial, note
        self._found = folder.unsettled()
        self.agent = Agent(
            node=spec,
            instance=secrets.token_hex(8),
            disk_id=folder.disk_id(),
            version=VERSION,
            cluster=folder.cluster(),
            lease_until=lease.read(folder.lease),
            runs=self._found,
        )
        self._runtime = NodeRuntime(machine, folder, self, setup)
        self._executor = Executor(self._runtime, folder, self._fetch)
        self._status = NodeStatus(self._seen)
        self._reports = Reports(lambda key: key in self.agent.known)
        self._tails = Tails(folder)
        self._stream: Stream | None = None
        self._was_registered = False
        self._tails_at = 0.0
        self._stopping = asyncio.Event()
        self._tasks = TaskSet()

    async def open(self) -> None:
        """Finds its runs and looks at its GPUs before the scheduler hears of it."""
        await self._runtime.open(self._executor.held(self._found))

    async def close(self) -> None:
        """Its runs go on: for as long as their lease says, the next agent finds them."""
        await self._tasks.close()
        await self._executor.close()
        await self._runtime.close()

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._runtime.leave()
        self._stopping.set()

    # ---- the connection

    async def serve(self) -> None:
        """Until it is told to stop. Raises where the scheduler will not have it, and no run would be left alone."""
        backoff, stopped = Backoff(), asyncio.ensure_future(self._stopping.wait())
        refused_at: float | None = None
        try:
            while not self._stopping.is_set():
                connection = asyncio.ensure_future(self._connect())
                await asyncio.wait({connection, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not connection.done():
                    connection.cancel()
                    await asyncio.gather(connection, return_exceptions=True)
                    return
                cut, registered = connection.result()
                if registered:
                    backoff.reset()
                    refused_at = None
                elif cut.refusal and refused_at is None:
                    refused_at = lease.now()
                self._note(Note("refused" if cut.refusal else "cut", cut.words))
                if cut.refusal and not registered:
                    self._give_up(cut, refused_at or lease.now())
                await asyncio.wait({stopped}, timeout=backoff.take())
        finally:
            stopped.cancel()

    def _give_up(self, cut: Cut, since: float) -> None:
        """With runs it goes on asking: their lease ends them if nobody takes it."""
        if self.agent.known or (cut.refusal in PATIENT and lease.now() - since < PATIENCE_S):
            return
        raise (NotPermitted if cut.refusal in NO_ENTRY else Refused)(cut.words)

    async def _connect(self) -> tuple[Cut, bool]:
        """One connection from beginning to end: why it ended, and whether it had ever come about."""
        self._was_registered = False
        try:
            self._stream = Stream(self._dial())
            self._do(self.agent.connected(lease.now()))
            sending = repeat(TICK_S / 4, self._send_now_and_then)
            await self._stream.run(self._take, self._tick(), sending)
        except Cut as cut:
            return cut, self._was_registered
        except WeftError as error:
            return cut_by(error), False
        finally:
            self._stream = None
            self._tails.start_over()
            self.agent.disconnected(lease.now())
        raise AssertionError("a stream does not end without a word")

    async def _tick(self) -> None:
        while True:
            due, now = self.agent.next_at(), lease.now()
            if due is not None and now >= due:
                self.agent.vitals = self._status.vitals(self._runtime.readings())
                self._do(self.agent.tick(now))
                due = self.agent.next_at()
            await asyncio.sleep(TICK_S if due is None else min(max(due - lease.now(), 0.01), TICK_S))

    def _send_now_and_then(self) -> None:
        """What is not urgent: only while nothing else waits."""
        now = lease.now()
        if self._stream is None or not self.agent.registered or not self._stream.is_free:
            return
        for message in self._reports.due(now):
            self._stream.send(message)
        if now >= self._tails_at:
            self._tails_at = now + TAIL_S
            for key in self.agent.known:
                self._send_tail(key)

    def _send_tail(self, key: RunKey) -> None:
        if self._stream is not None and self.agent.registered and (tail := self._tails.of(key)):
            self._stream.send(tail)

    # ---- what comes in

    def _take(self, message: SchedulerMessage) -> None:
        match message.WhichOneof("is"):
            case "read":
                self._tasks.spawn(self._answer(message.read))
            case "forget":
                known = {job for job, _ in self.agent.known}
                jobs = [job for job in message.forget.jobs if job not in known]
                self._tasks.spawn(asyncio.to_thread(self._folder.forget, jobs))
            case _:
                self._do(self.agent.take(message, lease.now()))
                if self.agent.registered and not self._was_registered:
                    self._was_registered = True
                    self._note(Note("connected", runs=len(self.agent.known)))
                    self._tasks.spawn(self._say_what_is_kept())

    async def _say_what_is_kept(self) -> None:
        """Some of it may have been forgotten while the agent was away."""
        jobs = await asyncio.to_thread(self._folder.kept)
        for start in range(0, len(jobs), KEPT_AT_A_TIME):
            if self._stream is not None and self.agent.registered:
                self._stream.send(AgentMessage(kept=Kept(jobs=jobs[start : start + KEPT_AT_A_TIME])))

    async def _answer(self, asked: ReadLog) -> None:
        message = await answer(self._folder, asked)
        if self._stream is not None:
            self._stream.send(message)

    def run_changed(self, report: Report) -> None:
        """The last part of its log and its last progress go before the end of a run."""
        if isinstance(report, RunExited):
            key = report.job, report.run
            self._send_tail(key)
            last = self._reports.last(key, lease.now())
            if last is not None and self._stream is not None and self.agent.registered:
                self._stream.send(last)
        self._do(self.agent.report(report, lease.now()))

    def gpus_changed(self, facts_at: FactsAt) -> None:
        self._status.gpus_changed(facts_at)

    def progress_reported(self, body: dict[str, Any]) -> None:
        self._reports.take(body)

    def _seen(self, blocks: Sequence[GpuBlock], measured: Sequence[GpuMemory]) -> None:
        self._do(self.agent.seen(blocks, measured))

    # ---- what is to be done

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Send():
                    if self._stream is not None:
                        self._stream.send(action.message)
                case Start():
                    self._executor.start(action.order)
                    if action.order.run > RUNS_KEPT:
                        self._tasks.spawn(asyncio.to_thread(self._folder.trim, action.order.job, action.order.run))
                case Stop():
                    self._executor.stop(action)
                case Settle():
                    self._executor.settle(action)
                case Lease():
                    self._lend(action.until)
                case Told():
                    self._folder.tell(action.job, action.run)
                    self._send_tail((action.job, action.run))  # it may have ended while nobody could be told
                    self._tails.forget((action.job, action.run))
                    self._reports.forget((action.job, action.run))
                case Joined():
                    self._folder.join(action.cluster)
                case Leave():
                    if self._stream is not None:
                        self._stream.close(action.words)

    def _lend(self, until: float) -> None:
        try:
            lease.write(self._folder.lease, until)
        except OSError as error:
            log.error("the lease cannot be written, runs will end: %s", error)

    async def _fetch(self, name: str) -> AsyncIterator[bytes]:
        """By a connection of its own: a large file does not keep heartbeats waiting."""
        way = self._dial()
        try:
            async for part in call(way.channel, "Get", "Blobs")(BlobName(sha256=name), metadata=tuple(way.metadata)):
                yield part.bytes
        finally:
            await way.channel.close()


def worker_on(
    machine: Machine,
    nvml: Nvml | NoDriver,
    spec: NodeSpec,
    folder: Folder,
    dial: Dial,
    *,
    foreign: Foreign = "avoid",
    note: Callable[[Note], None] = lambda _: None,
) -> Worker:
    """One with real processes and this machine's GPUs."""
    return Worker(machine, spec, folder, dial, setup=NodeSetup(nvml, foreign), note=note)
