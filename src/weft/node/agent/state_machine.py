"""The agent's side of the protocol as a state machine: messages and reports in, actions out.

The other side is `weft.server.nodes.registry`; see docs/reference/cluster.md. `now` is the node's boot clock, which
neither jumps nor stops (CLOCK_BOOTTIME). The two sides never compare their clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from weft.access.wire.messages import (
    AgentMessage,
    Confirm,
    Goodbye,
    GpuBlock,
    GpuMemory,
    GpuNews,
    Heartbeat,
    HeartbeatReply,
    Hello,
    NodeSpec,
    NodeStatus,
    ReplicaStatus,
    ReweaveRun,
    RunEnd,
    RunNews,
    SchedulerMessage,
    StageCounters,
    StartRun,
    StopRun,
    Welcome,
)
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.runs import ASKED, LEASE_ENDED, NODE_STOPPED, RunKey, news
from weft.model import JobId
from weft.node.agent.actions import (
    Action,
    Confirmed,
    Disconnect,
    Joined,
    Lease,
    LeaveIn,
    Reconcile,
    Reweave,
    Send,
    Start,
    Stop,
)
from weft.node.engine.events import Report, RunExited
from weft.node.engine.launch_spec import is_valid_job_id
from weft.node.engine.messages import run_end

REPLY_TIMEOUT_S: Final = 10.0
"""Timeout for the answer to Hello, and the minimum for answers to heartbeats. Then the agent reconnects."""
MISSED_HEARTBEATS: Final = 3
"""Number of unanswered heartbeats after which the connection counts as dead."""
LEASE_WRITE_STEPS: Final = 20
"""The lease file is rewritten each time this fraction (1/n) of the lease has passed."""
MAX_LEASE_S: Final = 30 * 86400.0


@dataclass(slots=True)
class _Run:
    phase: RunNews.Phase = RunNews.ORDERED
    end: RunEnd | None = None
    weave_id: str = ""
    """The weave whose tokens the run takes, as its folder says."""
    stages: tuple[StageCounters, ...] = ()
    replica: ReplicaStatus | None = None
    """The results of the probes of a replica."""


@dataclass(slots=True)
class Agent:
    """The state of one agent process.

    `disk_id` (disk and machine), `cluster` and `lease_until` come from the disk; a lease of an earlier boot is 0.
    `instance` is new for each process. `runs` are the runs with a claim and no confirmation on disk; the
    engine reports on them.
    """

    node: NodeSpec
    instance: str
    disk_id: str
    version: str = ""
    cluster: str = ""
    lease_until: float = 0.0
    runs: Iterable[RunKey] = ()
    status: NodeStatus = field(default_factory=NodeStatus)
    """Updated by the worker before each heartbeat."""
    _known: dict[RunKey, _Run] = field(default_factory=dict)
    _blocks: tuple[GpuBlock, ...] = ()
    _hello_at: float | None = None
    """When Hello was sent on this connection; None: not connected."""
    _epoch: int = 0
    """0: not registered."""
    _lease_s: float = 0.0
    _heartbeat_s: float = REPLY_TIMEOUT_S
    _heartbeat_at: float = 0.0
    _answered_at: float = 0.0
    """When the last answered heartbeat was sent."""
    _written_until: float = 0.0
    _leaving: str = ""
    """Why the agent leaves the cluster; empty: it stays."""
    _leave_grace_s: float = 0.0

    def __post_init__(self) -> None:
        self._known = {key: _Run() for key in self.runs}
        self._written_until = self.lease_until

    @property
    def registered(self) -> bool:
        return self._epoch != 0

    def is_current(self, epoch: int) -> bool:
        """Return whether a message belongs to the present registration."""
        return self._epoch == epoch != 0

    @property
    def known(self) -> tuple[RunKey, ...]:
        """The runs whose exit is not confirmed."""
        return tuple(self._known)

    @property
    def leaving(self) -> bool:
        return bool(self._leaving)

    @property
    def has_left(self) -> bool:
        """True once the agent leaves and no run of it is left. It does not connect again then."""
        return self.leaving and not self._known

    def next_tick_at(self) -> float | None:
        """Return when `tick` is due; None while not connected."""
        if self._hello_at is None:
            return None
        return self._heartbeat_at + self._heartbeat_s if self._epoch else self._hello_at + REPLY_TIMEOUT_S

    # ---- the connection

    def connected(self, now: float, unsent: Collection[RunKey] = ()) -> list[Action]:
        """Register. Hello leaves out the ends of runs with `unsent` reports: the first heartbeat has them, after those
        reports."""
        self._epoch, self._hello_at = 0, now
        hello = Hello(
            protocol=PROTOCOL,
            version=self.version,
            node=self.node,
            instance=self.instance,
            disk_id=self.disk_id,
            cluster=self.cluster,
            at=now,
            runs=[_news(key, _before_end(run) if key in unsent else run) for key, run in self._known.items()],
            blocks=self._blocks,
            leaving=self._leaving,
        )
        return [Send(AgentMessage(hello=hello))]

    def disconnected(self, _now: float) -> list[Action]:
        """Record the end of the connection. Runs continue until their lease ends; their news follow on reconnection."""
        self._epoch, self._hello_at = 0, None
        return []

    def tick(self, now: float) -> list[Action]:
        """Send a heartbeat or disconnect, if due. May be called early."""
        if self._hello_at is None:
            return []
        if not self._epoch:
            return self._disconnect("the scheduler did not answer") if now >= self._hello_at + REPLY_TIMEOUT_S else []
        if now - self._answered_at > max(MISSED_HEARTBEATS * self._heartbeat_s, REPLY_TIMEOUT_S):
            return self._disconnect("the scheduler no longer answers")
        return self._heartbeat(now) if now >= self._heartbeat_at + self._heartbeat_s else []

    def _disconnect(self, reason: str) -> list[Action]:
        self._epoch, self._hello_at = 0, None
        return [Disconnect(reason)]

    def _heartbeat(self, now: float) -> list[Action]:
        self._heartbeat_at = now
        heartbeat = Heartbeat(
            epoch=self._epoch,
            at=now,
            runs=self._all_news(),
            status=self.status,
            blocks=self._blocks,
        )
        return [Send(AgentMessage(heartbeat=heartbeat)), *self._goodbye()]

    # ---- leaving

    def leave(self, why: str, grace_s: float) -> list[Action]:
        """Leave the cluster: say so first, so that nothing starts here any more. `stop_runs` comes next.

        Each run has at most `grace_s` to save its work. The last Goodbye follows when the last end is confirmed.
        """
        self._leaving, self._leave_grace_s = why, grace_s
        return self._goodbye()

    def stop_runs(self) -> list[Action]:
        """Stop all runs, because the agent leaves."""
        return [self._stop_for_leave(key) for key, run in self._known.items() if run.end is None]

    def _stop_for_leave(self, key: RunKey) -> Action:
        return Stop(*key, NODE_STOPPED, self._leave_grace_s)

    def _goodbye(self) -> list[Action]:
        if not self._leaving or not self._epoch:
            return []
        return [Send(AgentMessage(goodbye=Goodbye(why=self._leaving, done=not self._known)))]

    def _all_news(self) -> list[RunNews]:
        return [_news(key, run) for key, run in self._known.items()]

    # ---- reports of the node

    def report(self, report: Report, _now: float) -> list[Action]:
        """Handle a report of the engine, also about reconciled runs and runs found on disk."""
        key = report.job, report.run
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = _Run()
        if isinstance(report, RunExited):
            run.phase, run.end = RunNews.ENDED, run_end(report)
        elif run.phase == RunNews.ORDERED:
            run.phase = RunNews.STARTED
        stop = [self._stop_for_leave(key)] if self._leaving and run.end is None else []
        return [*self._send_news(key, run), *stop]

    def report_gpus(self, blocks: Iterable[GpuBlock], measured: Iterable[GpuMemory] = ()) -> list[Action]:
        """Send all blocks of GPUs, and the newly measured needs of runs."""
        before, self._blocks = self._blocks, tuple(blocks)
        needs = tuple(measured)
        if not self._epoch or (before == self._blocks and not needs):
            return []
        return [Send(AgentMessage(gpus=GpuNews(blocks=self._blocks, measured=needs)))]

    def record_counters(self, key: RunKey, weave_id: str, stages: Iterable[StageCounters]) -> None:
        """Record what a run does in its weave, for the next heartbeat."""
        if (run := self._known.get(key)) is not None:
            run.weave_id, run.stages = weave_id, tuple(stages)

    def report_weave(self, key: RunKey, weave_id: str) -> list[Action]:
        """Send the weave that the folder of a run names now."""
        run = self._known.get(key)
        if run is None:
            return []
        run.weave_id, run.stages = weave_id, ()
        return self._send_news(key, run)

    def report_replica(self, key: RunKey, replica: ReplicaStatus) -> list[Action]:
        """Send what the probes of a replica have shown. Heartbeats repeat it."""
        run = self._known.get(key)
        if run is None or run.end is not None:
            return []
        run.replica = replica
        return self._send_news(key, run)

    def _send_news(self, key: RunKey, run: _Run) -> list[Action]:
        return [Send(AgentMessage(news=_news(key, run)))] if self._epoch else []

    # ---- messages of the scheduler

    def handle(self, message: SchedulerMessage, now: float) -> list[Action]:
        """Handle a message of the protocol of runs; `ReadLog`, `Forget` and `SuspendRun` are none. Drop invalid
        messages: the scheduler repeats requests."""
        match message.WhichOneof("is"):
            case "welcome":
                return self._on_welcome(message.welcome, now)
            case "heartbeat":
                return self._on_heartbeat_reply(message.heartbeat, now)
            case "start":
                return self._on_start(message.start, now)
            case "stop":
                return self._on_stop(message.stop)
            case "confirm":
                return self._on_confirm(message.confirm)
            case "reweave":
                return self._on_reweave(message.reweave)
        return []

    def _on_welcome(self, welcome: Welcome, now: float) -> list[Action]:
        if self._epoch or self._hello_at is None or welcome.at != self._hello_at or not welcome.epoch:
            return []
        if not (0 < welcome.heartbeat_s <= welcome.lease_s <= MAX_LEASE_S):
            return self._disconnect(
                f"invalid lease from the scheduler: {welcome.lease_s} s with heartbeats of {welcome.heartbeat_s} s"
            )
        self._epoch, self._lease_s, self._heartbeat_s = welcome.epoch, welcome.lease_s, welcome.heartbeat_s
        self._answered_at = welcome.at
        joined: list[Action] = [Joined(welcome.cluster)] if welcome.cluster != self.cluster else []
        self.cluster = welcome.cluster
        lapsed = self._stop_lapsed_runs() if now >= self.lease_until else []
        return [*joined, *lapsed, *self._renew_lease(welcome.at), *self._heartbeat(now)]

    def _on_heartbeat_reply(self, reply: HeartbeatReply, now: float) -> list[Action]:
        if reply.epoch != self._epoch or not self._epoch or not self._answered_at <= reply.at <= now:
            return []
        self._answered_at = reply.at
        ends = [LeaveIn(reply.at + reply.leaves_in_s - now)] if reply.HasField("leaves_in_s") else []
        return [*(self._stop_lapsed_runs() if now >= self.lease_until else []), *self._renew_lease(reply.at), *ends]

    def _stop_lapsed_runs(self) -> list[Action]:
        """Stop runs that outlived an expired lease: their shim was slow, and the scheduler may have given them up."""
        return [Stop(*key, LEASE_ENDED, 0.0) for key, run in self._known.items() if run.end is None]

    def _renew_lease(self, sent_at: float) -> list[Action]:
        """Renew the lease. It starts when the acknowledged message was sent."""
        self.lease_until = max(self.lease_until, sent_at + self._lease_s)
        if self.lease_until - self._written_until < self._lease_s / LEASE_WRITE_STEPS:
            return []
        self._written_until = self.lease_until
        return [Lease(self.lease_until)]

    def _on_start(self, launch: StartRun, now: float) -> list[Action]:
        """Start a run. Ignore messages of another registration or without a lease: the run may have been given up.

        An agent that leaves fences the run instead, and reports that it never started.
        """
        if (
            launch.epoch != self._epoch
            or not self._epoch
            or now >= self.lease_until
            or not is_valid_run(launch.job, launch.run)
        ):
            return []
        key = launch.job, launch.run
        known = self._known.get(key)
        if known is not None:
            return self._send_news(key, known)
        self._known[key] = _Run(weave_id=launch.weave.id)
        return [Reconcile(*key)] if self._leaving else [Start(launch)]

    def _on_stop(self, stop: StopRun) -> list[Action]:
        if stop.epoch != self._epoch or not self._epoch or not is_valid_run(stop.job, stop.run):
            return []
        key = stop.job, stop.run
        run = self._known.get(key)
        if run is None:
            self._known[key] = _Run()
            return [Reconcile(*key)]
        if run.end is not None or stop.why == ASKED:
            return self._send_news(key, run)
        grace_s = stop.grace_s if stop.HasField("grace_s") and 0 <= stop.grace_s < inf else None
        return [Stop(*key, stop.why, grace_s)]

    def _on_reweave(self, asked: ReweaveRun) -> list[Action]:
        """Change the weave of a run that has started. One that has not started yet gets its weave once it has: the
        scheduler repeats the message. It also repeats the latest weave if an older one overtook it."""
        run = self._known.get((asked.job, asked.run))
        if asked.epoch != self._epoch or not self._epoch or run is None or run.phase != RunNews.STARTED:
            return []
        return [Reweave(asked.job, asked.run, asked.weave)]

    def _on_confirm(self, confirm: Confirm) -> list[Action]:
        key = confirm.job, confirm.run
        run = self._known.get(key)
        if run is None or run.end is None:
            return []
        del self._known[key]
        return [Confirmed(*key), *(self._goodbye() if self.has_left else [])]


def _before_end(run: _Run) -> _Run:
    """Return a run as it was before it ended."""
    return run if run.end is None else replace(run, phase=RunNews.STARTED, end=None)


def _news(key: RunKey, run: _Run) -> RunNews:
    return news(key, run.phase, run.end, run.weave_id, run.stages, run.replica)


def is_valid_run(job: JobId, run: int) -> bool:
    """Return whether these values can name a run's folder."""
    return run > 0 and is_valid_job_id(job)
