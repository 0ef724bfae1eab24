"""The agent's end of the stream as a state machine: what arrives and what the node's engine reports goes in, with the
time; what is to be done comes out. The other end is `weft.server.nodes.registry`; see docs/reference/cluster.md.

`now` is the node's own clock, which neither jumps nor stops (CLOCK_BOOTTIME); no two ends compare theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from weft.engines.process.events import Report, RunExited
from weft.engines.process.launch_spec import is_valid_job_id
from weft.model import JobId
from weft.wire.convert import run_end
from weft.wire.messages import (
    AgentMessage,
    Confirm,
    GpuBlock,
    GpuMemory,
    GpuNews,
    GpuReading,
    Heartbeat,
    HeartbeatReply,
    Hello,
    NodeSpec,
    RunEnd,
    RunNews,
    SchedulerMessage,
    StartRun,
    StopRun,
    Welcome,
)
from weft.wire.protocol import PROTOCOL
from weft.wire.runs import ASKED, LEASE_ENDED, RunKey, news

PATIENCE_S: Final = 10.0
"""So long it waits for an answer to Hello, and at least so long for one to a heartbeat, before it connects anew."""
MISSED_HEARTBEATS: Final = 3
"""With so many heartbeats unanswered, the connection counts as dead."""
STEPS: Final = 20
"""The lease is written down anew when a twentieth of it has gone by."""
MOST_LEASE_S: Final = 30 * 86400.0


# ---- what is to be done


@dataclass(frozen=True, slots=True)
class Send:
    message: AgentMessage


@dataclass(frozen=True, slots=True)
class Start:
    """Start this run, unless its folder has been claimed: then report what it is."""

    order: StartRun


@dataclass(frozen=True, slots=True)
class Stop:
    job: JobId
    run: int
    why: str
    grace_s: float | None
    """None: what its order said."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Find out what became of a run that is not known here: put up its claim as a fence if nobody has claimed it
    (never-started), else adopt it; report what comes of it."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Runs may go on until then, by the node's clock: to be written where every shim reads it."""

    until: float


@dataclass(frozen=True, slots=True)
class Told:
    """The end of this run is on the scheduler's disk: mark its folder, it need not be said again."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Registered. `cluster` is to be kept on the disk, and given to the next agent here."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The connection is of no use any more: close it, and connect anew after a while."""

    words: str


Action = Send | Start | Stop | Settle | Lease | Told | Joined | Leave


@dataclass(frozen=True, slots=True)
class Vitals:
    """How the node is, as last seen: goes out with every heartbeat."""

    load: float = 0.0
    ram_used_mb: int = 0
    readings: tuple[GpuReading, ...] = ()


@dataclass(slots=True)
class _Run:
    phase: RunNews.Phase = RunNews.ORDERED
    end: RunEnd | None = None


@dataclass(slots=True)
class Agent:
    """`disk_id`, `cluster` and `lease_until` come from the node's disk; `disk_id` names disk and machine, and is made
    with the disk; `instance` is new with each process. A lease of an earlier boot is 0. `runs` are those found
    claimed on the disk and not marked as told: the engine is asked about them, and reports."""

    node: NodeSpec
    instance: str
    disk_id: str
    version: str = ""
    cluster: str = ""
    lease_until: float = 0.0
    runs: Iterable[RunKey] = ()
    vitals: Vitals = field(default_factory=Vitals)
    """Replaced by whoever looks at the node."""
    _known: dict[RunKey, _Run] = field(default_factory=dict)
    _blocks: tuple[GpuBlock, ...] = ()
    _hello_at: float | None = None
    """When it said Hello on this connection; None: there is no connection."""
    _epoch: int = 0
    """0: not registered."""
    _lease_s: float = 0.0
    _heartbeat_s: float = PATIENCE_S
    _heartbeat_at: float = 0.0
    _answered_at: float = 0.0
    """When the last heartbeat that was answered had been sent."""
    _written: float = 0.0

    def __post_init__(self) -> None:
        self._known = {key: _Run() for key in self.runs}
        self._written = self.lease_until

    @property
    def registered(self) -> bool:
        return self._epoch != 0

    @property
    def known(self) -> tuple[RunKey, ...]:
        """The runs whose end is not confirmed."""
        return tuple(self._known)

    def next_at(self) -> float | None:
        """When `tick` has something to do; None: nothing while there is no connection."""
        if self._hello_at is None:
            return None
        return self._heartbeat_at + self._heartbeat_s if self._epoch else self._hello_at + PATIENCE_S

    # ---- the connection

    def connected(self, now: float) -> list[Action]:
        self._epoch, self._hello_at = 0, now
        hello = Hello(
            protocol=PROTOCOL,
            version=self.version,
            node=self.node,
            instance=self.instance,
            disk_id=self.disk_id,
            cluster=self.cluster,
            at=now,
            runs=self._news(),
            blocks=self._blocks,
        )
        return [Send(AgentMessage(hello=hello))]

    def disconnected(self, _now: float) -> list[Action]:
        """Runs go on, until their lease has ended; what becomes of them is said when it is connected again."""
        self._epoch, self._hello_at = 0, None
        return []

    def tick(self, now: float) -> list[Action]:
        """To be called when `next_at` says so, or more often."""
        if self._hello_at is None:
            return []
        if not self._epoch:
            return self._leave("the scheduler did not answer") if now >= self._hello_at + PATIENCE_S else []
        if now - self._answered_at > max(MISSED_HEARTBEATS * self._heartbeat_s, PATIENCE_S):
            return self._leave("the scheduler no longer answers")
        return self._heartbeat(now) if now >= self._heartbeat_at + self._heartbeat_s else []

    def _leave(self, words: str) -> list[Action]:
        self._epoch, self._hello_at = 0, None
        return [Leave(words)]

    def _heartbeat(self, now: float) -> list[Action]:
        self._heartbeat_at = now
        heartbeat = Heartbeat(
            epoch=self._epoch,
            at=now,
            runs=self._news(),
            load=self.vitals.load,
            ram_used_mb=self.vitals.ram_used_mb,
            readings=self.vitals.readings,
            blocks=self._blocks,
        )
        return [Send(AgentMessage(heartbeat=heartbeat))]

    def _news(self) -> list[RunNews]:
        return [news(key, run.phase, run.end) for key, run in self._known.items()]

    # ---- what the node reports

    def report(self, report: Report, _now: float) -> list[Action]:
        """What the engine says of a run, also of one that `Settle` asked about or that was found on the disk."""
        key = report.job, report.run
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = _Run()
        if isinstance(report, RunExited):
            run.phase, run.end = RunNews.ENDED, run_end(report)
        elif run.phase == RunNews.ORDERED:
            run.phase = RunNews.STARTED
        return self._say(key, run)

    def seen(self, blocks: Iterable[GpuBlock], measured: Iterable[GpuMemory] = ()) -> list[Action]:
        """What the GPUs look like: all that keeps them from being used, and what runs were seen to need."""
        before, self._blocks = self._blocks, tuple(blocks)
        needs = tuple(measured)
        if not self._epoch or (before == self._blocks and not needs):
            return []
        return [Send(AgentMessage(gpus=GpuNews(blocks=self._blocks, measured=needs)))]

    def _say(self, key: RunKey, run: _Run) -> list[Action]:
        return [Send(AgentMessage(news=news(key, run.phase, run.end)))] if self._epoch else []

    # ---- what the scheduler says

    def take(self, message: SchedulerMessage, now: float) -> list[Action]:
        """What makes no sense is dropped: the scheduler says again what it wants. Logs and folders are not its
        concern: `ReadLog` and `Forget` go past it."""
        match message.WhichOneof("is"):
            case "welcome":
                return self._welcomed(message.welcome, now)
            case "heartbeat":
                return self._answered(message.heartbeat, now)
            case "start":
                return self._ordered(message.start, now)
            case "stop":
                return self._stopped(message.stop)
            case "confirm":
                return self._confirmed(message.confirm)
        return []

    def _welcomed(self, welcome: Welcome, now: float) -> list[Action]:
        if self._epoch or self._hello_at is None or welcome.at != self._hello_at or not welcome.epoch:
            return []
        if not (0 < welcome.heartbeat_s <= welcome.lease_s <= MOST_LEASE_S):
            return self._leave(
                f"the scheduler gives a lease of {welcome.lease_s} s with heartbeats of {welcome.heartbeat_s} s"
            )
        self._epoch, self._lease_s, self._heartbeat_s = welcome.epoch, welcome.lease_s, welcome.heartbeat_s
        self._answered_at = welcome.at
        joined: list[Action] = [Joined(welcome.cluster)] if welcome.cluster != self.cluster else []
        self.cluster = welcome.cluster
        lapsed = self._lapsed() if now >= self.lease_until else []
        return [*joined, *lapsed, *self._prolong(welcome.at), *self._heartbeat(now)]

    def _answered(self, reply: HeartbeatReply, now: float) -> list[Action]:
        if reply.epoch != self._epoch or not self._epoch or not self._answered_at <= reply.at <= now:
            return []
        self._answered_at = reply.at
        return [*(self._lapsed() if now >= self.lease_until else []), *self._prolong(reply.at)]

    def _lapsed(self) -> list[Action]:
        """The lease had run out before it was renewed: a run that is still there is one whose shim was slow, and the
        scheduler may have given it up."""
        return [Stop(*key, LEASE_ENDED, 0.0) for key, run in self._known.items() if run.end is None]

    def _prolong(self, sent_at: float) -> list[Action]:
        """The lease counts from when that was sent which the scheduler has answered."""
        self.lease_until = max(self.lease_until, sent_at + self._lease_s)
        if self.lease_until - self._written < self._lease_s / STEPS:
            return []
        self._written = self.lease_until
        return [Lease(self.lease_until)]

    def _ordered(self, order: StartRun, now: float) -> list[Action]:
        """Only orders of this registration, under a lease: else the scheduler may have given the run up meanwhile."""
        if order.epoch != self._epoch or not self._epoch or now >= self.lease_until or not is_run(order.job, order.run):
            return []
        key = order.job, order.run
        known = self._known.get(key)
        if known is not None:
            return self._say(key, known)
        self._known[key] = _Run()
        return [Start(order)]

    def _stopped(self, order: StopRun) -> list[Action]:
        if order.epoch != self._epoch or not self._epoch or not is_run(order.job, order.run):
            return []
        key = order.job, order.run
        run = self._known.get(key)
        if run is None:
            self._known[key] = _Run()
            return [Settle(*key)]
        if run.end is not None or order.why == ASKED:
            return self._say(key, run)
        grace_s = order.grace_s if order.HasField("grace_s") and 0 <= order.grace_s < inf else None
        return [Stop(*key, order.why, grace_s)]

    def _confirmed(self, confirm: Confirm) -> list[Action]:
        key = confirm.job, confirm.run
        run = self._known.get(key)
        if run is None or run.end is None:
            return []
        del self._known[key]
        return [Told(*key)]


def is_run(job: JobId, run: int) -> bool:
    """Whether that can be the name of a run's folder."""
    return run > 0 and is_valid_job_id(job)
