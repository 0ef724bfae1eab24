"""The registry of nodes, as a state machine: messages and the time go in, events and replies come out.

Replies are sent once the events are on disk. The other end is `weft.node.agent.state_machine`; the rules are in
docs/reference/cluster.md. Several messages may arrive before the events of the first reach the state. So members and
gangs record what was reported, and no event is produced twice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from weft.access.wire.convert import node_of
from weft.access.wire.messages import (
    AgentMessage,
    Goodbye,
    GpuBlock,
    GpuMemory,
    Heartbeat,
    HeartbeatReply,
    Hello,
    SchedulerMessage,
    Welcome,
)
from weft.access.wire.protocol import PROTOCOL
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
    Rewoven,
    Seconds,
    Start,
    Stop,
    Unblocked,
    Uncordoned,
    Unwoven,
)
from weft.model.status import Reason
from weft.node.engine.gpu.monitor import REASONS
from weft.scheduling.core.state.state import State
from weft.server.nodes import registration
from weft.server.nodes.outbox import Close, Outbox, Outcome, Reply
from weft.server.nodes.reconciler import CORDON_S, RunReconciler
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.validation import find_problem
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT
from weft.server.weaves.messages import DEFAULT_ORDER
from weft.server.weaves.monitor import WeaveMonitor

MISSED_HEARTBEATS: Final = 3
"""A node is silent after this many missed heartbeats."""
LEADER_EPOCH_SHIFT: Final = 42
"""The epochs of registrations under a later leader are higher than all before, whatever the clocks of servers say, and
than those of a server that was alone, which are milliseconds since 1970."""
RECONNECT_S: Final = 12.0
"""The time that agents get to connect to a server that starts, or that stood still: its nodes are not unreachable."""
STANDSTILL_S: Final = 5.0
"""A server that does not call `tick` for this long stood still."""
SILENT: Final = Reason.NODE_SILENT
"""Why a silent node is cordoned."""
UNREACHABLE: Final = Reason.NODE_UNREACHABLE
"""Why a node is cordoned whose replicas get substitutes."""
LEAVING: Final = Reason.NODE_LEAVING
"""Why a node is cordoned whose agent has said goodbye."""


class NodeRegistry:
    """All nodes of the cluster and their connections. A connection is a number that is never used twice.

    The lease of every node in the state counts from `started_at`. `cluster` is the name of the journal. `checkpoint`
    looks up what earlier runs of a job recorded to resume from. `order` is how the members of weaves take turns;
    `weaves` receives their counters. `leader_epoch` is that of the leader of several servers.
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
        order: Callable[[], str] = lambda: DEFAULT_ORDER,
        weaves: WeaveMonitor | None = None,
        leader_epoch: int = 0,
        replica_lease_s: float = 10.0,
    ) -> None:
        self._lease_s, self._heartbeat_s, self._margin_s = lease_s, heartbeat_s, margin_s
        self._replica_lease_s = max(replica_lease_s, 2 * heartbeat_s)
        self._ticked_at, self._patient_until = float("-inf"), started_at
        self._cluster, self._version = cluster, version
        self._epoch = 0
        self._first_epoch = leader_epoch << LEADER_EPOCH_SHIFT
        self._by_conn: dict[int, RegisteredNode] = {}
        self._cordoned = {node for node, why in state.closed if why == SILENT}
        """Nodes that have been cordoned as silent."""
        self._unreachable = {node for node, why in state.closed if why == UNREACHABLE}
        """Nodes that have been cordoned as unreachable."""
        self._leaving = {node for node, why in state.closed if why == LEAVING}
        """Nodes that have been cordoned because they leave."""
        self._members: dict[NodeId, RegisteredNode] = {}
        self._out = Outbox()
        self._reconciler = RunReconciler(state, self._members, self._out, checkpoint, order, weaves)
        for host in state.resources.nodes:
            if host.alive:
                self._add(host.node, started_at).silent = True

    def _add(self, node: Node, now: Seconds) -> RegisteredNode:
        full = {why: now + CORDON_S for why in (DISK_FLOOR, FILE_LIMIT) if (node.id, why) in self.state.closed}
        member = self._members[node.id] = RegisteredNode(node, now, full=full)
        return member

    @property
    def state(self) -> State:
        return self._reconciler.state

    @state.setter
    def state(self, state: State) -> None:
        """Use a state that was rebuilt from the same facts, for example under another policy."""
        self._reconciler.state = state

    # ---- queries

    @property
    def killed(self) -> list[str]:
        """The runs that were killed because the journal does not have them, in words."""
        return self._reconciler.killed

    def members(self) -> Iterator[RegisteredNode]:
        """Return all nodes, connected or not, in the order in which they joined."""
        return iter(self._members.values())

    def member_at(self, conn: int) -> RegisteredNode | None:
        """Return the node at the other end of a connection."""
        return self._by_conn.get(conn)

    def conn_of(self, node: NodeId) -> int | None:
        """Return the connection of a node, if it is connected."""
        member = self._members.get(node)
        return member.conn if member is not None and member.connected else None

    def speaks_for(self, conn: int, job: JobId, run: int) -> bool:
        """Return whether this connection may report on a run: its progress and logs."""
        member = self._by_conn.get(conn)
        return member is not None and self._reconciler.has_run(member, job, run)

    def lost_at(self, member: RegisteredNode) -> Seconds:
        """Return when the node is given up unless a heartbeat arrives."""
        return member.heard_at + self._lease_s + self._margin_s

    # ---- inputs

    def receive(self, conn: int, message: AgentMessage, now: Seconds) -> Outcome:
        """Process a message. Progress and logs do not pass through here."""
        kind = message.WhichOneof("is")
        # another version may lack fields of this one: refuse the version, not the fields
        foreign = kind == "hello" and message.hello.protocol != PROTOCOL
        wrong = "" if foreign else find_problem(message)
        member = self._by_conn.get(conn)
        if wrong:
            self._close(conn, "INVALID_ARGUMENT", wrong, now)
        elif kind == "hello":
            self._handle_hello(conn, message.hello, now)
        elif member is None:
            self._close(conn, "ABORTED", "this connection is not registered: connect and send Hello", now)
        elif kind == "heartbeat":
            self._handle_heartbeat(member, message.heartbeat, now)
        elif kind == "goodbye":
            self._handle_goodbye(member, message.goodbye, now)
        elif kind == "news":
            self._reconciler.apply_report(member, message.news, now)
        elif kind == "gpus":
            self._update_blocks(member, message.gpus.blocks, now)
            self._record_memory(member, message.gpus.measured, now)
        return self._out.flush()

    def disconnect(self, conn: int, now: Seconds) -> Outcome:
        """Record that a stream has ended."""
        self._disconnect(conn, now)
        return self._out.flush()

    def tick(self, now: Seconds, ejected: Container[JobId] = ()) -> Outcome:
        """Give up lost nodes and cordon silent ones. Call it about every second.

        `ejected`: replicas that fail at all routers. If their agent is silent too, they need not wait for its lease.
        """
        if now - self._ticked_at > STANDSTILL_S:
            self._patient_until = now + RECONNECT_S
        self._ticked_at = now
        for member in list(self._members.values()):
            if now >= self.lost_at(member):
                self._give_up(member, now)
                continue
            if member.silent or now - member.heard_at > MISSED_HEARTBEATS * self._heartbeat_s:
                self._mark_silent(member, now)
            if member.id not in self._unreachable and self._must_substitute(member, ejected, now):
                self._unreachable.add(member.id)
                self._out.events.append(Cordoned(now, member.id, UNREACHABLE, "its replicas get substitutes"))
            for why in [why for why, until in member.full.items() if now >= until]:
                del member.full[why]
                self._out.events.append(Uncordoned(now, member.id, why))
        self._reconciler.prune()
        return self._out.flush()

    def _must_substitute(self, member: RegisteredNode, ejected: Container[JobId], now: Seconds) -> bool:
        """Return whether replicas of a node get substitutes, while its runs keep their GPUs until it is lost."""
        over = now >= max(member.heard_at + self._replica_lease_s, self._patient_until)
        replicas = [job for job in self._reconciler.jobs_on(member.id) if job.job.replica is not None]
        return any(over or (member.silent and job.id in ejected) for job in replicas)

    def execute(self, decision: Decision | Unwoven) -> list[Reply]:
        """Return the messages for a decision that is on disk. Silent nodes get them when they report again."""
        if isinstance(decision, Start | Stop):
            self._reconciler.execute(decision.job)
        elif isinstance(decision, Rewoven | Unwoven):
            self._reconciler.reweave(decision.job)
        return self._out.flush()[1]

    # ---- connections

    def _close(self, conn: int, code: str, words: str, now: Seconds) -> None:
        self._out.replies.append(Close(conn, code, words))
        self._disconnect(conn, now)

    def _disconnect(self, conn: int, now: Seconds) -> None:
        member = self._by_conn.pop(conn, None)
        if member is not None:
            member.conn = None
            self._mark_silent(member, now)

    def _mark_silent(self, member: RegisteredNode, now: Seconds) -> None:
        member.silent = True
        if member.id not in self._cordoned:
            self._cordoned.add(member.id)
            self._out.events.append(Cordoned(now, member.id, SILENT, "its agent sends no heartbeats"))

    def _mark_heard(self, member: RegisteredNode, now: Seconds) -> None:
        member.heard_at = now
        member.silent = False
        if member.id in self._cordoned:
            self._cordoned.discard(member.id)
            self._out.events.append(Uncordoned(now, member.id, SILENT))
        if member.id in self._unreachable:
            self._unreachable.discard(member.id)
            self._out.events.append(Uncordoned(now, member.id, UNREACHABLE))

    # ---- registration

    def _handle_hello(self, conn: int, hello: Hello, now: Seconds) -> None:
        here = self._by_conn.get(conn)
        if here is not None and (here.instance, here.hello_at) == (hello.instance, hello.at):
            self._welcome(here)  # a duplicate
            return
        refusal = self._refusal(conn, hello, now)
        if refusal:
            self._close(conn, *refusal, now)
            return
        member = self._members.get(hello.node.id)
        if member is not None and member.conn is not None:
            self._close(member.conn, "ABORTED", "a later connection of this node replaces this one", now)
        member = self._join(member, hello, now)
        self._register(member, conn, hello, now)
        self._welcome(member)
        self._mark_leaving(member, hello.leaving, now)
        self._update_blocks(member, hello.blocks, now)
        self._reconciler.reconcile(member, hello.runs, now, hello=True)

    def _refusal(self, conn: int, hello: Hello, now: Seconds) -> registration.Refusal | None:
        if conn in self._by_conn:
            return "FAILED_PRECONDITION", "this connection is registered already: connect again to register again"
        refusal = registration.check_protocol(hello, self._version, self._cluster)
        member = self._members.get(hello.node.id)
        if refusal or member is None:
            return refusal
        living = registration.runs_alive(hello, member, self._reconciler.jobs_on(member.id))
        return registration.check_name(hello, member) or registration.check_runs_alive(
            hello, member, living, self.lost_at(member) - now
        )

    def _join(self, member: RegisteredNode | None, hello: Hello, now: Seconds) -> RegisteredNode:
        """Return the registered node. A changed node leaves and joins again, once no run is alive on it."""
        if member is not None:
            living = registration.runs_alive(hello, member, self._reconciler.jobs_on(member.id))
            if living or not registration.has_changed(hello, member):
                return member
            if member.node.disk_id == hello.disk_id:
                for reported in hello.runs:
                    self._reconciler.apply_report(member, reported, now)
            self._give_up(member, now)
        node = node_of(hello.node, hello.disk_id, now)
        self._out.events.append(NodeJoined(now, node))
        return self._add(node, now)

    def _register(self, member: RegisteredNode, conn: int, hello: Hello, now: Seconds) -> None:
        self._epoch = max(self._epoch + 1, self._first_epoch or int(now * 1000))
        member.conn, member.epoch, member.spec = conn, self._epoch, hello.node
        member.instance, member.version = hello.instance, hello.version
        member.hello_at = member.heartbeat_at = hello.at
        self._by_conn[conn] = member
        self._mark_heard(member, now)

    def _welcome(self, member: RegisteredNode) -> None:
        welcome = Welcome(
            protocol=PROTOCOL, version=self._version, epoch=member.epoch, lease_s=self._lease_s,
            heartbeat_s=self._heartbeat_s, at=member.hello_at, cluster=self._cluster,
        )  # fmt: skip
        self._out.send(member, SchedulerMessage(welcome=welcome))

    # ---- heartbeats

    def _handle_heartbeat(self, member: RegisteredNode, heartbeat: Heartbeat, now: Seconds) -> None:
        if heartbeat.epoch != member.epoch or heartbeat.at < member.heartbeat_at:
            return
        self._mark_heard(member, now)
        member.heartbeat_at, member.status = heartbeat.at, heartbeat.status
        self._out.send(member, SchedulerMessage(heartbeat=self._reply(member, heartbeat, now)))
        self._update_blocks(member, heartbeat.blocks, now)
        errors = self._reconciler.health.new_errors(
            member.id, heartbeat.status.readings, self.state.cleared.get(member.id, ())
        )
        self._reconciler.cordon_unhealthy(member, errors, now)
        self._reconciler.reconcile(member, heartbeat.runs, now)

    def _reply(self, member: RegisteredNode, heartbeat: Heartbeat, now: Seconds) -> HeartbeatReply:
        host = self.state.resources.by_id.get(member.id)
        until = None if host is None else host.node.until
        return HeartbeatReply(
            epoch=heartbeat.epoch, at=heartbeat.at, leaves_in_s=None if until is None else max(until - now, 0.0)
        )

    def _update_blocks(self, member: RegisteredNode, blocks: Iterable[GpuBlock], now: Seconds) -> None:
        """Update the reasons why GPUs are blocked, as the agent reports them. Leave reasons of others alone."""
        gpus, known = len(member.spec.gpus), self.state.occupants
        reported = {(each.gpu, each.why): each for each in blocks if each.why in REASONS and each.gpu < gpus}
        for (gpu, why), each in reported.items():
            before = known.get((member.id, gpu, why))
            memory_mb = each.memory_mb if each.HasField("memory_mb") else None
            if before is None or (before.memory_mb, before.detail) != (memory_mb, each.detail):
                self._out.events.append(Blocked(now, member.id, gpu, why, memory_mb, each.detail))
        if not known:
            return
        for gpu in range(gpus):
            for why in sorted(REASONS):
                if (member.id, gpu, why) in known and (gpu, why) not in reported:
                    self._out.events.append(Unblocked(now, member.id, gpu, why))

    def _record_memory(self, member: RegisteredNode, needs: Iterable[GpuMemory], now: Seconds) -> None:
        """Record the last figure of each run."""
        largest_mb = max((gpu.memory_mb for gpu in member.spec.gpus), default=0)
        last_mb = {(need.job, need.run): need.memory_mb for need in needs if need.memory_mb <= largest_mb}
        for (job, run), memory_mb in last_mb.items():
            if self._reconciler.has_run(member, job, run):
                self._out.events.append(Measured(now, job, run, memory_mb))

    # ---- leaving and loss

    def _handle_goodbye(self, member: RegisteredNode, goodbye: Goodbye, now: Seconds) -> None:
        """Cordon a node that leaves. Give it up once neither its agent nor the state has a run there.

        The agent alone does not know: a shim of an earlier agent may still start a run that the state has there.
        """
        self._mark_leaving(member, goodbye.why or "its agent ends", now)
        if goodbye.done and not self._reconciler.jobs_on(member.id):
            self._give_up(member, now, "goodbye")

    def _mark_leaving(self, member: RegisteredNode, why: str, now: Seconds) -> None:
        """Cordon a node that leaves, and stop the other parts of its gangs. Open a node that stays (empty `why`)."""
        if why and member.id not in self._leaving:
            self._leaving.add(member.id)
            self._out.events.append(Cordoned(now, member.id, LEAVING, why))
            self._reconciler.stop_gangs_of(member)
        elif not why and member.id in self._leaving:
            self._leaving.discard(member.id)
            self._out.events.append(Uncordoned(now, member.id, LEAVING))

    def _give_up(
        self, member: RegisteredNode, now: Seconds, words: str = "no heartbeat within the lease: connect again"
    ) -> None:
        """Remove a node. Its runs have ended: it said so, or their lease and the time to kill them are over."""
        if member.conn is not None:
            self._close(member.conn, "ABORTED", words, now)
        self._out.events.append(NodeLost(now, member.id))
        del self._members[member.id]
        self._reconciler.lose(member.id, now)
