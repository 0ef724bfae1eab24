"""A small language for tests of the roster: what agents say, and what comes back, as short lines."""

from __future__ import annotations

from collections.abc import Container, Iterable

from support.builders import Rig
from weft.access.wire.messages import AgentMessage, GpuSpec, Heartbeat, Hello, NodeSpec, RunEnd, RunNews
from weft.access.wire.protocol import PROTOCOL
from weft.model import Event, Fact, Job, Submitted
from weft.server.nodes.outbox import Close, Reply
from weft.server.nodes.registry import NodeRegistry
from weft.server.weaves.monitor import WeaveMonitor

LEASE_S, HEARTBEAT_S, MARGIN_S = 60.0, 5.0, 10.0


def spec(node: str = "n0", gpus: int = 2, **rest: object) -> NodeSpec:
    made = NodeSpec(id=node, gpus=[GpuSpec(index=at, uuid=f"{node}-{at}", memory_mb=1000) for at in range(gpus)])
    made.MergeFrom(NodeSpec(**rest))  # type: ignore[arg-type]
    return made


def run(line: str) -> RunNews:
    """`1/1 started`, `1/1 ended 3`, `1/1 ended preempted`: a number is a code, a word says why."""
    name, phase, *how = line.split()
    job, _, number = name.partition("/")
    end = RunEnd()
    for word in how:
        if word.lstrip("-").isdecimal():
            end.code = int(word)
        else:
            end.why = word
    ended = phase == "ended"
    return RunNews(job=job, run=int(number), phase=phase.upper(), end=end if ended else None)


def hello(node: NodeSpec | None = None, *runs: str, instance: str = "i", disk_id: str = "h", at: float = 1.0,
          protocol: int = PROTOCOL, cluster: str = "") -> AgentMessage:  # fmt: skip
    said = Hello(protocol=protocol, node=node or spec(), instance=instance, disk_id=disk_id, at=at, cluster=cluster,
                 runs=map(run, runs))  # fmt: skip
    return AgentMessage(hello=said)


def news(line: str) -> AgentMessage:
    return AgentMessage(news=run(line))


def line(reply: Reply) -> str:
    if isinstance(reply, Close):
        return f"{reply.conn}: closed {reply.code}"
    kind = reply.message.WhichOneof("is")
    if kind == "stop":
        stop = reply.message.stop
        grace = f" {stop.grace_s:g}" if stop.HasField("grace_s") else ""
        return f"{reply.conn}: stop {stop.job}/{stop.run} {stop.why}{grace}"
    if kind == "start":
        start = reply.message.start
        return f"{reply.conn}: start {start.job}/{start.run} on {list(start.gpus)}"
    if kind == "confirm":
        return f"{reply.conn}: confirm {reply.message.confirm.job}/{reply.message.confirm.run}"
    return f"{reply.conn}: {kind}"


class Room:
    """A scheduler with its registry; all messages are journalled at once."""

    def __init__(self, policy: str = "fifo", cluster: str = "") -> None:
        self.rig, self._cluster = Rig(policy), cluster
        self.now, self.heartbeats = 100.0, 1.0
        self.registry = self._registry()
        self.words: list[str] = []
        """The reasons of refused connections."""

    def _registry(self) -> NodeRegistry:
        return NodeRegistry(
            self.rig.state, self.now, lease_s=LEASE_S, heartbeat_s=HEARTBEAT_S, margin_s=MARGIN_S,
            cluster=self._cluster, weaves=WeaveMonitor(lambda: getattr(self.rig.scheduler.policy, "pace", None)),
        )  # fmt: skip

    def restart(self) -> None:
        """As after a crash: what is left is the journal."""
        twin = self.rig.fresh()
        twin.replay(self.rig.facts)
        self.rig.scheduler = twin
        self.registry = self._registry()

    def say(self, conn: int, *messages: AgentMessage) -> list[str]:
        """One after the other, each with what comes of it."""
        replies: list[str] = []
        for message in messages:
            events, back = self.registry.receive(conn, message, self.now)
            replies += self._done(events, back)
        return replies

    def heartbeat(self, conn: int, *runs: str, epoch: int | None = None, **rest: object) -> list[str]:
        self.heartbeats += 1
        member = self.registry.member_at(conn)
        known = member.epoch if member is not None else 1
        heartbeat = Heartbeat(epoch=known if epoch is None else epoch, at=self.heartbeats, runs=map(run, runs))
        heartbeat.MergeFrom(Heartbeat(**rest))  # type: ignore[arg-type]
        return self.say(conn, AgentMessage(heartbeat=heartbeat))

    def gone(self, conn: int) -> list[str]:
        return self._done(*self.registry.disconnect(conn, self.now))

    def later(self, seconds: float, ejected: Container[str] = ()) -> list[str]:
        self.now += seconds
        return self._done(*self.registry.tick(self.now, ejected))

    def submit(self, name: str = "1", gpus: int = 1, **rest: object) -> list[str]:
        return self._done([Submitted(self.now, Job(name, gpus, **rest))], [])  # type: ignore[arg-type]

    def tell(self, *events: Event) -> list[str]:
        return self._done(list(events), [])

    def _done(self, events: Iterable[Event], replies: Iterable[Reply]) -> list[str]:
        self.rig.now = self.now
        decisions = self.rig.tell(*events) if events else []
        back = [*replies, *(reply for decision in decisions for reply in self.registry.execute(decision))]
        self.words += [reply.words for reply in back if isinstance(reply, Close)]
        return [line(reply) for reply in back]

    def status(self, name: str = "1") -> str:
        job = self.rig.job(name)
        return f"{job.status} {job.run}"

    def facts(self, *kinds: type) -> list[Fact]:
        return [fact for fact in self.rig.facts if isinstance(fact, kinds)]
