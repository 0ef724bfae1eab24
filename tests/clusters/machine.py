"""A machine: its disk, the shims and processes on it, the process engine, and the agent, which may die and come back.

What outlives an agent is what really does: claims, exit records and the lease file on the disk, and the shims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from clusters.mayhem import MARGIN_S, Mayhem
from clusters.network import Network
from clusters.timeline import Timeline
from clusters.truth import Process, RunKey, Truth
from clusters.work import Work
from weft.access.wire.messages import GpuSpec, NodeSpec, SchedulerMessage, StartRun
from weft.node.agent.actions import Action, Confirmed, Disconnect, Joined, Lease, Reconcile, Reweave, Send, Start, Stop
from weft.node.agent.state_machine import Agent
from weft.node.engine.events import Report, RunExited, RunStarted
from weft.node.engine.shim.process_id import Identity

DELAY_S = 0.3
"""The longest time that an engine takes to act or to notice."""
GRACE_S = 8.0
SLOW_CLAIM_S = 10.0
"""The longest time that an order waits for its shim on a busy machine, also when the agent has died meanwhile."""
LEAVE_GRACE_S = 5.0
LEAVE_MARGIN_S = 4.0
NOBODY = Identity("boot", 1, 1)


@dataclass(slots=True)
class Folder:
    """The files of one run on the disk."""

    boot: int
    order: StartRun | None = None
    started: bool = False
    stop: tuple[str, float] | None = None
    exit: RunExited | None = None
    told: bool = False
    weave: str = ""
    """The weave that the run takes turns in."""


@dataclass(slots=True)
class Machine:
    name: str
    node: str
    gpus: int
    time: Timeline
    network: Network
    mayhem: Mayhem
    truth: Truth
    work: Work
    booted_at: float = 0.0
    """Its own clock counts from there."""
    boot: int = 1
    disk: dict[RunKey, Folder] = field(default_factory=dict)
    stops: dict[RunKey, tuple[str, float]] = field(default_factory=dict)
    """Stop files of runs that have no claim yet."""
    lease: float = 0.0
    lease_boot: int = 0
    cluster: str = ""
    agent: Agent | None = None
    life: int = 0
    """The number of the agent's life: actions of an earlier one are void."""
    conn: int | None = None
    ticks: int = 0
    """The last one that was set; earlier ones are void."""
    rendezvous: Callable[[RunKey], None] = lambda _: None
    """Told when a part has started: its processes work once all have."""

    @property
    def now(self) -> float:
        return self.time.now - self.booted_at

    def later(self, do: Callable[[], None], within_s: float = DELAY_S) -> None:
        """Do something a little later, unless this agent has died by then."""
        life = self.life
        self.time.after(self.time.chance.uniform(0, within_s), lambda: do() if life == self.life else None)

    # ---- the agent's life

    def start_agent(self) -> None:
        if self.agent is not None:
            return
        self.life += 1
        found = [key for key, folder in self.disk.items() if not folder.told]
        spec = NodeSpec(
            id=self.node, address=self.name, gpus=[GpuSpec(index=at, memory_mb=1000) for at in range(self.gpus)]
        )
        lease = self.lease if self.lease_boot == self.boot else 0.0
        self.agent = Agent(
            spec, f"{self.name}/{self.life}", self.name, cluster=self.cluster, lease_until=lease, runs=found
        )
        for key in found:
            self.later(lambda key=key: self.look(key))  # type: ignore[misc]
        self.dial()

    def read_weaves(self) -> None:
        """Send with the next message which weaves the folders of runs name."""
        for key, folder in self.disk.items():
            if self.agent is not None and folder.weave:
                self.agent.record_counters(key, folder.weave, [self.work.turns(key[0], self.now)])

    def crash_agent(self) -> None:
        if self.agent is not None:
            self.time.note(f"{self.name}: the agent dies")
            self.agent = None
            self.life += 1
            self.drop_line()

    def leave(self) -> None:
        """The agent ends in order, at the latest when its time is over, and another one is started later."""
        if self.agent is None or self.agent.leaving or not self.agent.registered:
            return
        self.time.note(f"{self.name}: the agent leaves")
        life = self.life
        self.do(self.agent.leave("its agent ends", LEAVE_GRACE_S))
        self.do(self.agent.stop_runs())
        self.time.after(LEAVE_GRACE_S + LEAVE_MARGIN_S, lambda: self.end_agent() if life == self.life else None)

    def end_agent(self) -> None:
        self.crash_agent()
        self.time.after(self.time.chance.uniform(0, 20), self.start_agent)

    def reboot(self) -> None:
        self.time.note(f"{self.name}: reboots")
        self.crash_agent()
        for key, name in list(self.truth.living):
            if name == self.name:
                self.truth.end(key, name, None, "reboot")
        self.boot += 1
        self.booted_at = self.time.now - self.time.chance.uniform(0, 30)
        self.stops.clear()

    # ---- the connection

    def dial(self) -> None:
        if self.agent is None or self.conn is not None:
            return
        self.conn = self.network.dial(self)
        if self.conn is None:
            self.later(self.dial, 4.0)
        else:
            self.read_weaves()
            self.do(self.agent.connected(self.now))
            self.tick()

    def tick(self) -> None:
        if self.agent is None or self.conn is None:
            return
        conn = self.conn
        self.read_weaves()
        self.do(self.agent.tick(self.now))
        due = self.agent.next_tick_at()
        if due is not None and conn == self.conn:
            self.ticks += 1
            tick, wait_s = self.ticks, max(due - self.now, 0.001)
            self.time.after(wait_s, lambda: self.tick() if tick == self.ticks else None)

    def hear(self, _conn: int, message: SchedulerMessage) -> None:
        """Also what comes over a connection of before."""
        if self.agent is not None:
            registered = self.agent.registered
            self.do(self.agent.handle(message, self.now))
            if self.agent.registered and not registered:
                self.tick()

    def hung_up(self, conn: int) -> None:
        if self.agent is not None and conn == self.conn:
            self.conn = None
            self.do(self.agent.disconnected(self.now))
            if self.agent.has_left:
                self.end_agent()
            else:
                self.later(self.dial, 2.0)

    def drop_line(self) -> None:
        if self.conn is not None:
            self.network.hang_up(self.conn)
            self.conn = None

    # ---- what the agent wants done

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(message):
                    if self.conn is not None:
                        self.network.to_head(self.conn, message)
                case Lease(until):
                    self.lease, self.lease_boot = until, self.boot
                case Joined(cluster):
                    self.cluster = cluster
                case Confirmed(job, run):
                    self.forget(self.disk[job, run])
                case Start(order):
                    assert self.agent is None or not self.agent.leaving, f"{self.name} leaves, and starts {order.job}"
                    self.order(order)
                case Stop(job, run, why, grace_s):
                    self.stop((job, run), why, GRACE_S if grace_s is None else grace_s)
                case Reconcile(job, run):
                    self.later(lambda key=(job, run): self.settle(key))  # type: ignore[misc]
                case Reweave(job, run, weave):
                    self.reweave((job, run), weave.id)
                case Disconnect(words):
                    self.time.note(f"{self.name}: {words}")
                    self.drop_line()
                    self.later(self.dial, 2.0)

    def forget(self, folder: Folder) -> None:
        """Only the claim must stay."""
        folder.told = True
        if folder.exit is not None:
            folder.exit = replace(folder.exit, code=None, signal=None, why="told before")

    def order(self, order: StartRun) -> None:
        """It goes to a shim, which lives on if the agent dies now; or gets lost on the way."""
        key, boot, life = (order.job, order.run), self.boot, self.life
        if not self.network.calm and self.time.chance.random() < self.mayhem.order_loss:
            self.later(lambda: self.settle(key), 2.0)
            return

        def claim() -> None:
            if boot == self.boot:
                self.claim(key, order, life)

        chance = self.time.chance
        slow = not self.network.calm and chance.random() < self.mayhem.slow_claims
        self.time.after(chance.uniform(0, SLOW_CLAIM_S if slow else DELAY_S), claim)
        if slow and self.mayhem.goodbyes_s and chance.random() < 0.3:
            self.spite()

    def spite(self) -> None:
        """The agent dies while an order waits, and the next one leaves: neither knows of a run."""
        chance = self.time.chance
        self.time.after(chance.uniform(0, 1), self.crash_agent)
        self.time.after(chance.uniform(1, 2), self.start_agent)
        self.time.after(chance.uniform(2, 4), self.leave)

    def reweave(self, key: RunKey, weave: str) -> None:
        """Its file is written again, unless the disk is full just then."""
        folder, failed = self.disk[key], self.time.chance.random() < self.mayhem.order_loss
        if self.network.calm or not failed:
            folder.weave = weave
        if self.agent is not None:
            self.do(self.agent.report_weave(key, folder.weave))

    def stop(self, key: RunKey, why: str, grace_s: float) -> None:
        folder = self.disk.get(key)
        if folder is None:
            self.stops[key] = why, grace_s
        elif folder.exit is None and (key, self.name) in self.truth.living:
            self.kill(key, why, grace_s)

    def settle(self, key: RunKey) -> None:
        if key not in self.disk:  # the claim is a fence now
            self.disk[key] = Folder(self.boot, exit=RunExited(0.0, *key, why="never-started"))
        self.look(key)

    def look(self, key: RunKey) -> None:
        """By its folder, what a run is: reported."""
        folder = self.disk[key]
        if folder.exit is not None:
            self.report(folder.exit)
        elif (key, self.name) in self.truth.living:
            self.report(RunStarted(0.0, *key, NOBODY, NOBODY))
        else:
            self.report(RunExited(0.0, *key, why="lost" if folder.boot == self.boot else "reboot"))

    def report(self, report: Report) -> None:
        if self.agent is not None:
            self.do(self.agent.report(report, self.now))

    def soon(self, key: RunKey) -> None:
        """Whichever agent there is then looks at it."""
        self.later(lambda: self.look(key))

    # ---- shims

    def claim(self, key: RunKey, order: StartRun, life: int) -> None:
        if key in self.disk:
            self.soon(key)
            return
        folder = self.disk[key] = Folder(self.boot, order, weave=order.weave.id)
        stop = self.stops.pop(key, None)
        if stop is not None or self.lease_boot != self.boot or self.now >= self.lease:
            folder.exit = RunExited(0.0, *key, why=stop[0] if stop else "lease-ended")
            self.soon(key)
            return
        folder.started = True
        self.time.note(f"{self.name}: run {key} starts on {list(order.gpus)}")
        self.truth.begin(Process(key, self.name, tuple(order.gpus), self.time.now))
        self.guard(key)
        self.rendezvous(key)
        if life == self.life:
            self.soon(key)

    def guard(self, key: RunKey) -> None:
        """A shim reads the lease when it has run out by what it read before."""
        boot = self.boot

        def look() -> None:
            if boot != self.boot or (key, self.name) not in self.truth.living:
                return
            if self.now >= self.lease:
                self.kill(key, "lease-ended", MARGIN_S * 0.6)
            else:
                self.guard(key)

        lateness_s = self.time.chance.uniform(0, MARGIN_S * 0.3)
        self.time.after(max(self.lease - self.now, 0.0) + lateness_s, look)

    def kill(self, key: RunKey, why: str, grace_s: float) -> None:
        """Signal the run: it ends by itself within the grace, or is killed at its end."""
        chance = self.time.chance
        code, signal = chance.choice(((None, 15), (None, 9), (85, None), (0, None), (1, None)))
        wait_s = grace_s if signal == 9 else chance.uniform(0, min(grace_s, 2.0))
        self.finish_after(wait_s, key, code, signal, why)

    def finish_after(self, wait_s: float, key: RunKey, code: int | None, signal: int | None, why: str) -> None:
        boot = self.boot

        def finish() -> None:
            if boot == self.boot and (key, self.name) in self.truth.living:
                self.finish(key, code, signal, why)

        self.time.after(wait_s, finish)

    def finish(self, key: RunKey, code: int | None, signal: int | None, why: str) -> None:
        """No process is left; its end is on the disk."""
        self.time.note(f"{self.name}: run {key} ends with {code} signal {signal} {why}")
        self.truth.end(key, self.name, 128 + signal if signal else code, why)
        self.disk[key].exit = RunExited(0.0, *key, code, signal, why, started_at=1.0, ran_s=5.0)
        self.soon(key)

    def kill_a_shim(self) -> None:
        """Its processes are killed by the engine, if there is one, before that says so."""
        mine = [key for key, name in self.truth.living if name == self.name]
        if mine and self.agent is not None:
            key = self.time.chance.choice(mine)
            self.time.note(f"{self.name}: the shim of run {key} is killed")
            self.truth.end(key, self.name, None, "lost")
            self.soon(key)
