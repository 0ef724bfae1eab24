"""The scheduler's end of all agents' streams as a state machine: messages and the time go in; events, and what is to
be sent once these are on disk, come out. The other end is `weft.agent.state_machine`; the rules are in
docs/reference/cluster.md.

Several messages may be taken before the events of the first have reached the state: what was said already is kept here
(members, and what gangs know of themselves), so that the same is not said twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from weft.core.state.state import State
from weft.engines.process.gpu.monitor import REASONS
from weft.model import (
    Blocked,
    Cordoned,
    Decision,
    JobId,
    Measured,
    Node,
    NodeId,
    NodeJoined,
    NodeLost,
    Seconds,
    Start,
    Stop,
    Unblocked,
    Uncordoned,
)
from weft.model.status import Reason
from weft.server.nodes import registration
from weft.server.nodes.outbox import Close, Outbox, Reply, Taken
from weft.server.nodes.reconciler import FULL_S, RunReconciler
from weft.server.nodes.registered_node import RegisteredNode, node_of
from weft.server.nodes.validation import problem
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT
from weft.wire.messages import (
    AgentMessage,
    GpuBlock,
    GpuMemory,
    Heartbeat,
    HeartbeatReply,
    Hello,
    SchedulerMessage,
    Welcome,
)
from weft.wire.protocol import PROTOCOL

MISSED_HEARTBEATS: Final = 3
"""With so many heartbeats missed a node is silent."""
SILENT: Final = Reason.NODE_SILENT
"""Why nothing is started on a node that is."""


class NodeRegistry:
    """Connections are numbers that whoever holds the streams gives out, none twice.

    `started_at`: the lease of every node that the state knows counts from there. `cluster` names the journal.
    `checkpoint` looks up what earlier runs of a job recorded to go on from.
    """

    def __init__(
        self,
        state: State,
        started_at: Seconds,
        *,
        lease_s: float,
        heartbeat_s: float,
        margin_s: float,
        cluster: str = "",
        version: str = "",
        checkpoint: Callable[[JobId], str] = lambda _: "",
    ) -> None:
        self._lease_s, self._heartbeat_s, self._margin_s = lease_s, heartbeat_s, margin_s
        self._cluster, self._version = cluster, version
        self._epoch = 0
        self._by_conn: dict[int, RegisteredNode] = {}
        self._closed = {node for node, why in state.closed if why == SILENT}
        """Of which it was said that they are silent."""
        self._members: dict[NodeId, RegisteredNode] = {}
        self._out = Outbox()
        self._reconciler = RunReconciler(state, self._members, self._out, checkpoint)
        for room in state.resources.nodes:
            if room.alive:
                self._add(room.node, started_at).silent = True

    def _add(self, node: Node, now: Seconds) -> RegisteredNode:
        full = {why: now + FULL_S for why in (DISK_FLOOR, FILE_LIMIT) if (node.id, why) in self.state.closed}
        member = self._members[node.id] = RegisteredNode(node, now, full=full)
        return member

    @property
    def state(self) -> State:
        return self._reconciler.state

    @state.setter
    def state(self, state: State) -> None:
        """The same facts, added up anew (under another policy)."""
        self._reconciler.state = state

    # ---- to be read

    def members(self) -> Iterator[RegisteredNode]:
        """All nodes that count, connected or not, in the order in which they joined."""
        return iter(self._members.values())

    def member(self, conn: int) -> RegisteredNode | None:
        """Who is at the other end."""
        return self._by_conn.get(conn)

    def conn_of(self, node: NodeId) -> int | None:
        """Where a node is to be reached now."""
        member = self._members.get(node)
        return member.conn if member is not None and member.connected else None

    def speaks_for(self, conn: int, job: JobId, run: int) -> bool:
        """Whether what comes over this connection about a run (progress, logs) is to be believed."""
        member = self._by_conn.get(conn)
        return member is not None and self._reconciler.is_on(member, job, run)

    def lost_at(self, member: RegisteredNode) -> Seconds:
        """When it is given up unless it is heard of."""
        return member.heard_at + self._lease_s + self._margin_s

    # ---- in

    def take(self, conn: int, message: AgentMessage, now: Seconds) -> Taken:
        """One message. Progress and logs go past it."""
        wrong, kind = problem(message), message.WhichOneof("is")
        member = self._by_conn.get(conn)
        if wrong:
            self._close(conn, "INVALID_ARGUMENT", wrong, now)
        elif kind == "hello":
            self._greet(conn, message.hello, now)
        elif member is None:
            self._close(conn, "ABORTED", "this connection is not registered: connect and say hello", now)
        elif kind == "heartbeat":
            self._heartbeat(member, message.heartbeat, now)
        elif kind == "news":
            self._reconciler.hear(member, message.news, now)
        elif kind == "gpus":
            self._look(member, message.gpus.blocks, now)
            self._measure(member, message.gpus.measured, now)
        return self._out.taken()

    def gone(self, conn: int, now: Seconds) -> Taken:
        """The stream has ended."""
        self._part(conn, now)
        return self._out.taken()

    def tick(self, now: Seconds) -> Taken:
        """To be called every second or so."""
        for member in list(self._members.values()):
            if now >= self.lost_at(member):
                self._lose(member, now)
                continue
            if member.silent or now - member.heard_at > MISSED_HEARTBEATS * self._heartbeat_s:
                self._silence(member, now)
            for why in [why for why, until in member.full.items() if now >= until]:
                del member.full[why]
                self._out.events.append(Uncordoned(now, member.id, why))
        self._reconciler.prune()
        return self._out.taken()

    def carry_out(self, decision: Decision) -> list[Reply]:
        """What has been decided, and is on disk. Nodes that are silent learn it when they are heard of again."""
        if isinstance(decision, Start | Stop):
            self._reconciler.carry_out(decision.job)
        return self._out.taken()[1]

    # ---- connections

    def _close(self, conn: int, code: str, words: str, now: Seconds) -> None:
        self._out.replies.append(Close(conn, code, words))
        self._part(conn, now)

    def _part(self, conn: int, now: Seconds) -> None:
        member = self._by_conn.pop(conn, None)
        if member is not None:
            member.conn = None
            self._silence(member, now)

    def _silence(self, member: RegisteredNode, now: Seconds) -> None:
        member.silent = True
        if member.id not in self._closed:
            self._closed.add(member.id)
            self._out.events.append(Cordoned(now, member.id, SILENT, "its agent is not heard of"))

    def _heard(self, member: RegisteredNode, now: Seconds) -> None:
        member.heard_at = now
        member.silent = False
        if member.id in self._closed:
            self._closed.discard(member.id)
            self._out.events.append(Uncordoned(now, member.id, SILENT))

    # ---- registration

    def _greet(self, conn: int, hello: Hello, now: Seconds) -> None:
        here = self._by_conn.get(conn)
        if here is not None and (here.instance, here.hello_at) == (hello.instance, hello.at):
            self._welcome(here)  # it came twice
            return
        refusal = self._refusal(conn, hello, now)
        if refusal:
            self._close(conn, *refusal, now)
            return
        member = self._members.get(hello.node.id)
        if member is not None and member.conn is not None:
            self._close(member.conn, "ABORTED", "a later connection of this node has taken its place", now)
        member = self._join(member, hello, now)
        self._register(member, conn, hello, now)
        self._welcome(member)
        self._look(member, hello.blocks, now)
        self._reconciler.reconcile(member, hello.runs, now, hello=True)

    def _refusal(self, conn: int, hello: Hello, now: Seconds) -> registration.Refusal | None:
        if conn in self._by_conn:
            return "FAILED_PRECONDITION", "it has registered already: connect anew to register again"
        refusal = registration.not_understood(hello, self._version, self._cluster)
        member = self._members.get(hello.node.id)
        if refusal or member is None:
            return refusal
        living = registration.still_there(hello, member, self._reconciler.on(member.id))
        return registration.name_taken(hello, member) or registration.in_the_way(
            hello, member, living, self.lost_at(member) - now
        )

    def _join(self, member: RegisteredNode | None, hello: Hello, now: Seconds) -> RegisteredNode:
        """A node that is not what it was leaves, once nothing lives on it, and joins as what it is."""
        if member is not None:
            living = registration.still_there(hello, member, self._reconciler.on(member.id))
            if living or not registration.is_other(hello, member):
                return member
            if member.node.disk_id == hello.disk_id:
                for said in hello.runs:
                    self._reconciler.hear(member, said, now)
            self._lose(member, now)
        node = node_of(hello.node, hello.disk_id)
        self._out.events.append(NodeJoined(now, node))
        return self._add(node, now)

    def _register(self, member: RegisteredNode, conn: int, hello: Hello, now: Seconds) -> None:
        self._epoch = max(self._epoch + 1, int(now * 1000))
        member.conn, member.epoch, member.spec = conn, self._epoch, hello.node
        member.instance, member.version = hello.instance, hello.version
        member.hello_at = member.heartbeat_at = hello.at
        self._by_conn[conn] = member
        self._heard(member, now)

    def _welcome(self, member: RegisteredNode) -> None:
        welcome = Welcome(
            protocol=PROTOCOL, version=self._version, epoch=member.epoch, lease_s=self._lease_s,
            heartbeat_s=self._heartbeat_s, at=member.hello_at, cluster=self._cluster,
        )  # fmt: skip
        self._out.send(member, SchedulerMessage(welcome=welcome))

    # ---- heartbeats

    def _heartbeat(self, member: RegisteredNode, heartbeat: Heartbeat, now: Seconds) -> None:
        if heartbeat.epoch != member.epoch or heartbeat.at < member.heartbeat_at:
            return
        self._heard(member, now)
        member.heartbeat_at, member.load, member.ram_used_mb = heartbeat.at, heartbeat.load, heartbeat.ram_used_mb
        member.readings = tuple(heartbeat.readings)
        self._out.send(member, SchedulerMessage(heartbeat=HeartbeatReply(epoch=heartbeat.epoch, at=heartbeat.at)))
        self._look(member, heartbeat.blocks, now)
        self._reconciler.reconcile(member, heartbeat.runs, now)

    def _look(self, member: RegisteredNode, blocks: Iterable[GpuBlock], now: Seconds) -> None:
        """What keeps GPUs from being used, compared with what is known of it. Blocks of others are left alone."""
        gpus, known = len(member.spec.gpus), self.state.occupants
        said = {(each.gpu, each.why): each for each in blocks if each.why in REASONS and each.gpu < gpus}
        for (gpu, why), each in said.items():
            before = known.get((member.id, gpu, why))
            memory_mb = each.memory_mb if each.HasField("memory_mb") else None
            if before is None or (before.memory_mb, before.detail) != (memory_mb, each.detail):
                self._out.events.append(Blocked(now, member.id, gpu, why, memory_mb, each.detail))
        if not known:
            return
        for gpu in range(gpus):
            for why in sorted(REASONS):
                if (member.id, gpu, why) in known and (gpu, why) not in said:
                    self._out.events.append(Unblocked(now, member.id, gpu, why))

    def _measure(self, member: RegisteredNode, needs: Iterable[GpuMemory], now: Seconds) -> None:
        largest_mb = max((gpu.memory_mb for gpu in member.spec.gpus), default=0)
        for need in needs:
            if need.memory_mb <= largest_mb and self._reconciler.is_on(member, need.job, need.run):
                self._out.events.append(Measured(now, need.job, need.run, need.memory_mb))

    # ---- loss

    def _lose(self, member: RegisteredNode, now: Seconds) -> None:
        """Its runs have ended by themselves: their lease has, and the time that it takes to kill them."""
        if member.conn is not None:
            self._close(member.conn, "ABORTED", "nothing was heard for as long as the lease: connect anew", now)
        self._out.events.append(NodeLost(now, member.id))
        del self._members[member.id]
        self._reconciler.lose(member.id, now)
