"""The scheduler's process: core, registry and journal, driven as `weft.server.loop` does it. It may die at any moment,
and then knows what was on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from clusters.mayhem import HEARTBEAT_S, LEASE_S, MARGIN_S, Mayhem
from clusters.network import Network
from clusters.timeline import Timeline
from weft.access.wire.messages import AgentMessage
from weft.model import Alarm, Decision, Event, Fact, Rewoven, Start, Stop, Unwoven, Wake
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.server.nodes.outbox import Close, Outcome, Reply, Send
from weft.server.nodes.registry import NodeRegistry

TICK_S = 2.0
policy = cache(registry.load_policy)
Make = Callable[[float], tuple[Sequence[Event], Sequence[Reply]]]


class Head:
    def __init__(
        self, time: Timeline, network: Network, mayhem: Mayhem, offset_s: float, placement: str = "packed"
    ) -> None:
        self._placement = registry.load_placement(placement)
        self._time, self._network, self._mayhem, self._offset_s = time, network, mayhem, offset_s
        self.disk: list[Fact] = []
        self.conns: set[int] = set()
        self.leaving: dict[str, int] = {}
        """Nodes that have said goodbye, as this process knows it, each with its connection."""
        self.up = False
        self.epoch = 0
        """The epoch under which it leads; 0: it is the only one, or does not lead."""
        self._life = 0
        """Whatever was under way in an earlier one is void."""
        network.head = self
        self.scheduler = self.fresh()
        self.start()

    @property
    def now(self) -> float:
        return self._time.now + self._offset_s

    @property
    def stalled(self) -> bool:
        return not self.up or self._time.now < self._stalled_until

    # ---- it starts, and dies

    def start_empty(self) -> None:
        """Be up, and know nothing."""
        self.up = True
        self._life += 1
        self._waiting: list[tuple[Make, Callable[[], None]]] = []
        self._writes = False
        self._stalled_until = 0.0
        self.conns = set()
        self.leaving = {}

    def start(self) -> None:
        self.start_empty()
        self.scheduler = self.fresh()
        self.scheduler.replay(self.disk)
        self.registry = NodeRegistry(
            self.scheduler.state,
            self.now,
            lease_s=LEASE_S,
            heartbeat_s=HEARTBEAT_S,
            margin_s=MARGIN_S,
            cluster="c",
            leader_epoch=self.epoch,
        )
        self._set_alarm(self.scheduler.alarm)
        self.ask(lambda now: ([Wake(now)], []))
        self._tick(self._life)

    def fresh(self) -> Scheduler:
        return Scheduler(policy(self._mayhem.policy), self._placement, interval_s=0.0)

    die: Callable[[], None] = lambda: None
    """It dies, and is started again after a while."""

    def crash(self) -> None:
        self._time.note("the scheduler dies")
        self.up = False
        self._life += 1
        self._network.head_died(self)

    def stall(self, seconds: float) -> None:
        self._time.note(f"the scheduler stands still for {seconds:.1f} s")
        self._stalled_until = self._time.now + seconds

    def _alive(self, life: int, do: Callable[[], None]) -> Callable[[], None]:
        return lambda: do() if life == self._life and self.up else None

    def _tick(self, life: int) -> None:
        self.ask(self.registry.tick)
        self._time.after(TICK_S, self._alive(life, lambda: self._tick(life)))

    def _set_alarm(self, due: float | None) -> None:
        if due is not None:
            self._time.after(max(due - self.now, 1e-6), self._alive(self._life, lambda: self._ring(due)))

    def _ring(self, due: float) -> None:
        if self.now < due:
            self._set_alarm(due)
        else:
            self.ask(lambda now: ([Wake(now)], []))

    # ---- what arrives

    def hear(self, conn: int, message: AgentMessage) -> None:
        self.conns.add(conn)
        self.ask(lambda now: self._receive(conn, message, now))

    def _receive(self, conn: int, message: AgentMessage, now: float) -> Outcome:
        """Pass a message on, and remember which nodes have said goodbye on their present connections."""
        found = self.registry.receive(conn, message, now)
        member = self.registry.member_at(conn)
        if (message.HasField("goodbye") or message.hello.leaving) and member is not None:
            self.leaving[member.id] = conn
        for node in [node for node, at in self.leaving.items() if self.registry.conn_of(node) != at]:
            del self.leaving[node]
        return found

    def gone(self, conn: int) -> None:
        self.conns.discard(conn)
        self.ask(lambda now: self.registry.disconnect(conn, now))

    def ask(self, make: Make, then: Callable[[], None] = lambda: None) -> None:
        """`then` is called once it is on disk."""
        self._waiting.append((make, then))
        if not self._writes and len(self._waiting) == 1:
            self._time.after(0.0, self._alive(self._life, self._turn))

    def resize(self, service: str, replicas: int) -> None:
        """Set the number of replicas, as an autoscaler does; skipped while something is being written."""
        if self._writes or self._waiting or service not in self.scheduler.state.services.by_name:
            return
        decisions = self.scheduler.resize(max(self.now, self.scheduler.state.now), service, replicas)
        self.disk += decisions
        self._do([], decisions)

    # ---- one turn: all that has arrived, in one transaction

    def _turn(self) -> None:
        if self._writes or not self._waiting:
            return
        if self._time.now < self._stalled_until:
            self._time.after(self._stalled_until - self._time.now, self._alive(self._life, self._turn))
            return
        if not self._leads():
            return
        batch, self._waiting = self._waiting, []
        now, events = self.now, list[Event]()
        replies: list[Reply] = []
        for make, _ in batch:
            brought, back = make(now)
            events += brought
            replies += back
        decisions = self.scheduler.step(*events) if events else []
        for start in (each for each in decisions if isinstance(each, Start)):
            gone = {node for node, _ in start.slots} & set(self.leaving)
            assert not gone, f"job {start.job} is to start on {gone}, which has said goodbye"
        life, facts = self._life, [*events, *decisions]

        def written() -> None:
            self._writes = False
            fate = self._time.chance.random() if facts and not self._network.calm else 1.0
            if fate > self._mayhem.torn_commits and facts and not self._store(facts):
                return
            if fate < self._mayhem.torn_commits * 2:  # with it on disk, or not
                self.die()
                return
            if self._time.trace is not None:
                for fact in facts:
                    self._time.note(f"  {fact}")
            for _, then in batch:
                then()
            self._do(replies, [*(event for event in events if isinstance(event, Unwoven)), *decisions])
            if self._waiting:
                self._turn()

        if facts and self._mayhem.commit_s and not self._network.calm:
            self._writes = True
            self._time.after(self._time.chance.uniform(0, self._mayhem.commit_s), self._alive(life, written))
        else:
            written()

    def _leads(self) -> bool:
        """Return whether it may answer."""
        return True

    def _store(self, facts: Sequence[Fact]) -> bool:
        """Put facts on disk; False if that is not allowed any more."""
        self.disk += facts
        return True

    def _do(self, replies: list[Reply], decisions: Sequence[Decision | Unwoven]) -> None:
        for decision in decisions:
            if isinstance(decision, Alarm):
                self._set_alarm(decision.due)
            elif isinstance(decision, Start | Stop | Rewoven | Unwoven):
                replies += self.registry.execute(decision)
        for reply in replies:
            if isinstance(reply, Send):
                self._network.to_caller(reply.conn, reply.message)
            elif isinstance(reply, Close):
                self._time.note(f"closed {reply.conn}: {reply.code} {reply.words}")
                self.conns.discard(reply.conn)
                self._network.close(reply.conn)
