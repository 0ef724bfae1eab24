"""The worker: connects the state machine, the stream to the scheduler, and the runtime of the node."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from weft.access.endpoints.config import sharing_setting
from weft.access.wire.messages import AgentMessage, GpuBlock, GpuMemory, NodeSpec, ReadLog, SchedulerMessage
from weft.access.wire.runs import RunKey
from weft.errors import NotPermitted, Refused, Unreachable, WeftError
from weft.node.agent import actions as act
from weft.node.agent.allocation_end import AllocationEnd
from weft.node.agent.connection import Backoff, Dial, Disconnected, ServerCycle, Stream, disconnected_by, fetch_blob
from weft.node.agent.executor import Executor
from weft.node.agent.logs import LogTails, read_log
from weft.node.agent.node_status import NodeStatusCollector
from weft.node.agent.progress import ProgressQueue
from weft.node.agent.replicas.prober import ReplicaReport
from weft.node.agent.runtime import NodeRuntime, NodeSetup
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.state_machine import Agent
from weft.node.agent.worker_event import WorkerEvent
from weft.node.engine import lease
from weft.node.engine.background import TaskSet, repeat
from weft.node.engine.events import Report, RunExited
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.monitor import Foreign
from weft.node.engine.gpu.nvml import NoDriver, Nvml
from weft.node.engine.gpu.poller import FactsAt
from weft.node.engine.output.logs import RUNS_KEPT
from weft.version import VERSION

TICK_S: Final = 1.0
TAIL_PERIOD_S: Final = 5.0
TEMPORARY_REFUSALS: Final = frozenset({"ALREADY_EXISTS"})
"""Refusals that may pass: a killed worker may still seem connected for a moment."""
REFUSAL_TIMEOUT_S: Final = 30.0
LEAVE_GRACE_S: Final = 20.0
"""The most time that a worker which leaves gives its runs to save their work."""
LEAVE_MARGIN_S: Final = 5.0
"""The time after that for the scheduler to confirm their ends, and to come back if it is away."""
LEAVE_REASON: Final = "its worker ends"
PILOT_PATIENCE_S: Final = 600.0
"""A pilot without runs ends if it cannot register for this long: its allocation costs the site."""
AUTH_REFUSALS: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
log = logging.getLogger(__name__)


class Worker:
    """An agent at work. `dial` opens a channel for each connection; `setup` configures the runtime.

    `stop` leaves the cluster: the jobs here run elsewhere. With `keep_runs` it leaves the runs to the next worker. The
    allocation of a pilot ends `ends_at`, in seconds since 1970; a pilot ends if the scheduler is gone for long.
    """

    def __init__(
        self,
        machine: Machine,
        spec: NodeSpec,
        folder: AgentDir,
        dial: Dial,
        *,
        setup: NodeSetup | None = None,
        on_event: Callable[[WorkerEvent], None] = lambda _: None,
        leave_grace_s: float = LEAVE_GRACE_S,
        keep_runs: bool = False,
        is_pilot: bool = False,
        ends_at: float | None = None,
    ) -> None:
        self._leave_grace_s, self._keep_runs = leave_grace_s, keep_runs
        self._is_pilot = is_pilot
        self._end = AllocationEnd(ends_at, leave_grace_s + LEAVE_MARGIN_S, self._end_allocation)
        self._folder, self._on_event = folder, on_event
        self._dial = dial if isinstance(dial, ServerCycle) else ServerCycle((dial,))
        self._found = folder.unconfirmed()
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
        min_uid = None if setup is None else setup.min_uid
        self._executor = Executor(self._runtime, folder, partial(fetch_blob, self._dial), min_uid=min_uid)
        self._status = NodeStatusCollector(folder, self._report_gpus)
        self._progress = ProgressQueue(folder.jobs, lambda key: key in self.agent.known)
        self._tails = LogTails(folder)
        self._stream: Stream | None = None
        self._was_registered = False
        self._tails_at = 0.0
        self._stopping = asyncio.Event()
        self._leaves_when_registered = False
        """True once `stop` was called while the worker was not connected."""
        self._tasks = TaskSet()

    async def open(self) -> None:
        """Adopt the runs of this node and poll its GPUs, before the first connection."""
        await self._runtime.open(self._executor.held_gpus(self._found))

    async def close(self) -> None:
        """Close without stopping the runs. The next agent adopts them if their lease lasts."""
        await self._tasks.close()
        await self._executor.close()
        await self._runtime.close()

    def stop(self) -> None:
        """Leave the cluster in order, then end. Called again, or without runs to stop, end at once.

        A worker with runs that is not connected leaves when it connects, for example to a restarted scheduler. If it
        does not within its grace, it leaves the runs to the next worker. A pilot, which its site may signal several
        times, leaves in order however often it is called.
        """
        if self._is_pilot and (self.agent.leaving or self._leaves_when_registered) and self.agent.known:
            return
        if not self.agent.registered and self.agent.known and not (self._keep_runs or self._leaves_when_registered):
            self._leaves_when_registered = True
            self._on_event(WorkerEvent("leaving", "waiting for the scheduler", len(self.agent.known)))
            asyncio.get_running_loop().call_later(self._leave_grace_s, self._detach_unless_leaving)
            return
        if self._keep_runs or self.agent.leaving or not self.agent.registered:
            self.detach()
            return
        self._on_event(WorkerEvent("leaving", runs=len(self.agent.known)))
        self._execute(self.agent.leave(LEAVE_REASON, self._leave_grace_s))
        self._runtime.begin_node_stop(leaving=True)
        self._execute(self.agent.stop_runs())
        asyncio.get_running_loop().call_later(self._leave_grace_s + LEAVE_MARGIN_S, self._stopping.set)

    def _end_allocation(self) -> None:
        if not self.agent.leaving and not self._stopping.is_set():
            self.stop()

    def _detach_unless_leaving(self) -> None:
        if not self.agent.leaving:
            self.detach()

    def detach(self) -> None:
        """End at once. The runs continue until their lease ends; the next worker of this name finds them again."""
        if not self._stopping.is_set() and not self.agent.leaving:
            self._runtime.begin_node_stop()
        self._stopping.set()

    # ---- connection

    async def serve(self) -> None:
        """Serve until the worker has left or is detached. Raise if the scheduler refuses a worker that has no runs."""
        backoff, stopped = Backoff(self._dial.max_retry_s), asyncio.ensure_future(self._stopping.wait())
        self._end.open()
        refused_at: float | None = None
        registered_at = lease.now()
        try:
            while not self._stopping.is_set():
                connection = asyncio.ensure_future(self._connect())
                await asyncio.wait({connection, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not connection.done():
                    connection.cancel()
                    await asyncio.gather(connection, return_exceptions=True)
                    return
                ended, registered = connection.result()
                if registered:
                    backoff.reset()
                    refused_at, registered_at = None, lease.now()
                else:
                    self._dial.advance()
                if self.agent.has_left or (self.agent.leaving and lease.now() - registered_at > LEAVE_MARGIN_S):
                    return
                if self._is_pilot and not self.agent.known and lease.now() - registered_at > PILOT_PATIENCE_S:
                    raise Unreachable(f"the scheduler has been away for {PILOT_PATIENCE_S:.0f} s: {ended.reason}")
                if ended.refusal and not registered and refused_at is None:
                    refused_at = lease.now()
                self._on_event(
                    WorkerEvent(
                        "refused" if ended.refusal else "disconnected",
                        ended.reason,
                        gives_up_in_s=self._gives_up_in_s(ended, refused_at),
                    )
                )
                if ended.refusal and not registered:
                    self._raise_if_refused(ended, refused_at or lease.now())
                delay_s = backoff.next_delay_s()
                await asyncio.wait({stopped}, timeout=backoff.first_s if self._leaves_when_registered else delay_s)
        finally:
            stopped.cancel()

    def _gives_up_in_s(self, ended: Disconnected, since: float | None) -> float | None:
        if ended.refusal not in TEMPORARY_REFUSALS or self.agent.known or since is None:
            return None
        return max(REFUSAL_TIMEOUT_S - (lease.now() - since), 0.0)

    def _raise_if_refused(self, ended: Disconnected, since: float) -> None:
        """Raise the refusal, unless it is temporary or runs exist: for those keep trying until their lease ends."""
        if self.agent.known or (ended.refusal in TEMPORARY_REFUSALS and lease.now() - since < REFUSAL_TIMEOUT_S):
            return
        raise (NotPermitted if ended.refusal in AUTH_REFUSALS else Refused)(ended.reason)

    async def _connect(self) -> tuple[Disconnected, bool]:
        """Hold one connection. Return why it ended, and whether the worker was registered."""
        self._was_registered = False
        try:
            self._stream = Stream(self._dial())
            if (left_s := self._end.leaves_in_s) is not None:
                self.agent.node.ends_in_s = left_s
            self._update_status()
            self._execute(self.agent.connected(lease.now(), self._progress.repeat()))
            sending = repeat(TICK_S / 4, self._send_when_idle)
            await self._stream.run(self._handle, self._tick(), sending)
        except Disconnected as ended:
            return ended, self._was_registered
        except WeftError as error:
            return disconnected_by(error), False
        finally:
            self._stream = None
            self._tails.reset()
            self.agent.disconnected(lease.now())
        raise AssertionError("a stream ends with an exception")

    async def _tick(self) -> None:
        while True:
            due, now = self.agent.next_tick_at(), lease.now()
            if due is not None and now >= due:
                self._update_status()
                self._execute(self.agent.tick(now))
                due = self.agent.next_tick_at()
            await asyncio.sleep(TICK_S if due is None else min(max(due - lease.now(), 0.01), TICK_S))

    def _update_status(self) -> None:
        """Give the state machine what the next Hello or heartbeat reports of the node and its woven runs."""
        self.agent.status = self._status.current(self._runtime.readings(), self._runtime.shared_runs())
        for key, weave in self._runtime.woven.reports().items():
            self.agent.record_counters(key, weave.id, weave.stages)

    def _send_when_idle(self) -> None:
        """Send progress and log tails while no other message waits."""
        now = lease.now()
        if self._stream is None or not self.agent.registered or not self._stream.is_idle:
            return
        self._send_progress()
        if now >= self._tails_at:
            self._tails_at = now + TAIL_PERIOD_S
            for key in self.agent.known:
                self._send_tail(key)

    def _send_progress(self) -> None:
        if self._stream is not None:
            for message in self._progress.due_messages(lease.now()):
                self._stream.send(message)

    def _send_tail(self, key: RunKey) -> None:
        if self._stream is not None and self.agent.registered and (tail := self._tails.new_tail(key)):
            self._stream.send(tail)

    # ---- incoming messages and reports

    def _handle(self, message: SchedulerMessage) -> None:
        match message.WhichOneof("is"):
            case "read":
                self._tasks.spawn(self._answer(message.read))
            case "describe":
                self._tasks.spawn(self._send_all(partial(self._folder.records, message.describe.jobs)))
            case "forget":
                known = {job for job, _ in self.agent.known}
                jobs = [job for job in message.forget.jobs if job not in known]
                self._tasks.spawn(asyncio.to_thread(self._folder.forget, jobs))
            case "terminal":
                order = message.terminal
                if (order.job, order.run) in self.agent.known:
                    from weft.node.agent.terminals import serve_command, serve_terminal  # rare

                    folder = self._folder.run_dir(order.job, order.run)
                    serve = serve_command if order.command else serve_terminal
                    self._tasks.spawn(serve(self._dial, folder, order))
            case "suspend":
                asked = message.suspend
                if self.agent.is_current(asked.epoch):
                    self._runtime.suspend(asked.job, asked.run, asked.suspended)
            case _:
                actions = self.agent.handle(message, lease.now())
                if self.agent.registered and not self._was_registered:
                    self._send_progress()  # the actions report the ends of runs
                self._execute(actions)
                if self.agent.registered and not self._was_registered:
                    self._was_registered = True
                    self._on_event(WorkerEvent("connected", runs=len(self.agent.known)))
                    if self._leaves_when_registered and not self.agent.leaving:
                        self._leaves_when_registered = False
                        self.stop()
                    self._tasks.spawn(self._send_all(self._folder.kept_jobs))

    async def _send_all(self, read: Callable[[], list[AgentMessage]]) -> None:
        """Send what a thread reads from the disk."""
        for message in await asyncio.to_thread(read):
            if self._stream is not None and self.agent.registered:
                self._stream.send(message)

    async def _answer(self, asked: ReadLog) -> None:
        message = await read_log(self._folder, asked)
        if self._stream is not None:
            self._stream.send(message)

    def run_changed(self, report: Report) -> None:
        """Send the last part of the log and the last progress before the exit of a run."""
        if isinstance(report, RunExited):
            key = report.job, report.run
            self._send_tail(key)
            self._progress.take_left(key)
            if self._stream is not None and self.agent.registered and (last := self._progress.pop(key, lease.now())):
                self._stream.send(last)
        self._execute(self.agent.report(report, lease.now()))

    def replica_changed(self, report: ReplicaReport) -> None:
        self._execute(self.agent.report_replica((report.job, report.run), report.status))

    def gpus_changed(self, facts_at: FactsAt) -> None:
        self._status.gpus_changed(facts_at)

    def progress_reported(self, body: dict[str, Any]) -> None:
        self._progress.add(body)

    def _report_gpus(self, blocks: Sequence[GpuBlock], measured: Sequence[GpuMemory]) -> None:
        self._execute(self.agent.report_gpus(blocks, measured))

    # ---- actions

    def _execute(self, actions: Iterable[act.Action]) -> None:
        for action in actions:
            match action:
                case act.Send():
                    if self._stream is not None:
                        self._stream.send(action.message)
                case act.Start():
                    self._executor.start(action.launch)
                    if action.launch.run > RUNS_KEPT:
                        self._tasks.spawn(
                            asyncio.to_thread(self._folder.remove_old_runs, action.launch.job, action.launch.run)
                        )
                case act.Stop():
                    self._executor.stop(action)
                case act.Reconcile():
                    self._executor.reconcile(action)
                case act.Reweave():
                    key = action.job, action.run
                    self._execute(self.agent.report_weave(key, self._executor.reweave(action)))
                case act.Lease():
                    self._write_lease(action.until)
                case act.LeaveIn():
                    if self._is_pilot:
                        self._end.follow(action.seconds)
                case act.Confirmed():
                    self._folder.mark_confirmed(action.job, action.run)
                    self._send_tail((action.job, action.run))  # it may have ended while disconnected
                    self._tails.forget((action.job, action.run))
                    self._progress.forget((action.job, action.run))
                case act.Joined():
                    self._folder.join(action.cluster)
                case act.Disconnect():
                    if self._stream is not None:
                        self._stream.close(action.reason)

    def _write_lease(self, until: float) -> None:
        try:
            lease.write(self._folder.lease, until)
        except OSError as error:
            log.error("cannot write the lease, so runs will end: %s", error)


def create_worker(
    machine: Machine,
    nvml: Nvml | NoDriver,
    spec: NodeSpec,
    folder: AgentDir,
    dial: Dial,
    *,
    foreign: Foreign = "avoid",
    on_event: Callable[[WorkerEvent], None] = lambda _: None,
    leave_grace_s: float = LEAVE_GRACE_S,
    keep_runs: bool = False,
    is_pilot: bool = False,
    ends_at: float | None = None,
    min_uid: int | None = None,
) -> Worker:
    """Return a worker with real processes and this machine's GPUs."""
    setup = NodeSetup(nvml, foreign, lease=folder.lease, sharing=sharing_setting(), min_uid=min_uid)
    return Worker(
        machine, spec, folder, dial, setup=setup, on_event=on_event, leave_grace_s=leave_grace_s, keep_runs=keep_runs,
        is_pilot=is_pilot, ends_at=ends_at,
    )  # fmt: skip
