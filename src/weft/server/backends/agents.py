"""The backend of a cluster: agents execute runs on their nodes.

The registry decides what to send to which agent. This module adds the streams and the clock, and receives reports.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from weft.access.server.settings import Settings
from weft.access.wire import messages as m
from weft.access.wire.runs import MAX_JOBS_PER_MESSAGE
from weft.errors import WeftError
from weft.history.journal.postgres.blobs import BlobTable
from weft.model import Continued, Event, JobId, NodeId, Resumed, Seconds, Start, Suspended
from weft.model.slots import nodes_of
from weft.node.agent.progress import MAX_REPORT_CHARS
from weft.node.engine import lease
from weft.node.engine.background import TaskSet
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.plugins import registry as plugins
from weft.server.backends.agent_inventory import AgentInventory
from weft.server.backends.agent_logs import AgentLogs
from weft.server.backends.base import BackendPorts, Host, Kill, Order
from weft.server.jobs.admission import ClusterRules
from weft.server.jobs.checkpoints import Checkpoints
from weft.server.jobs.quotas import Quotas
from weft.server.nodes.adoption import Adoption
from weft.server.nodes.outbox import Reply
from weft.server.nodes.registry import NodeRegistry
from weft.server.nodes.run_messages import stop_run, suspend_run
from weft.server.nodes.session import Agents
from weft.server.nodes.streams import Streams
from weft.server.pause_reasons import CLOSING
from weft.version import VERSION
from weft.views.from_state.gpu_numbers import GpuNumbers

TICK_S: Final = 1.0
HEARTBEAT_S: Final = 5.0
MARGIN_S: Final = 2 * (lease.GRACE_S + lease.POLL_S) + 10.0
"""The time that shims need to notice the end of the lease and to kill; doubled for busy machines."""
MAX_LISTED: Final = 20
"""The most killed runs that `weft doctor` lists; the log has all."""
log = logging.getLogger(__name__)


class AgentBackend:
    """Executes decisions through the agents that are connected."""

    def __init__(self, host: Host, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._host = host
        self._lease_s, self._margin_s = host.settings.lease_s, host.settings.margin_s or MARGIN_S
        self._heartbeat_s = min(heartbeat_s, self._lease_s / 4)
        self.streams = Streams()
        self._checkpoints = Checkpoints(host.paths.jobs, host.files.changed)
        self.quotas = Quotas(host.settings, host.paths.state)
        self._registry = self._new_registry()
        self.adoption = Adoption(host.state, host.loop.clock.now())
        self.inventory = AgentInventory(
            host, self._present_registry, self._run_problems, lease_s=self._lease_s, heartbeat_s=self._heartbeat_s
        )
        self.logs = AgentLogs(host, self._present_registry, self.streams)
        self._tasks = TaskSet()
        self._is_open = False
        self._logged_kills = 0

    @property
    def registry(self) -> NodeRegistry:
        """The registry, on the present state. The state is replaced when the policy changes."""
        self._registry.state = self._host.state()
        return self._registry

    def _present_registry(self) -> NodeRegistry:
        return self.registry

    def _run_problems(self) -> list[str]:
        killed = [f"{run} was killed: the journal did not have it" for run in self._registry.killed]
        return [*self.adoption.problems(), *killed[:MAX_LISTED]]

    def _new_registry(self) -> NodeRegistry:
        return NodeRegistry(
            self._host.state(), self._host.loop.clock.now(), lease_s=self._lease_s, heartbeat_s=self._heartbeat_s,
            margin_s=self._margin_s, cluster=self._host.cluster, version=VERSION,
            checkpoint=self._checkpoints.of, order=self._host.order, weaves=self._host.weaves,
            leader_epoch=self._host.leader_epoch, replica_lease_s=self._host.settings.replica_lease_s,
        )  # fmt: skip

    # ---- opening and closing

    async def open(self, known: Mapping[JobId, JobState]) -> None:  # noqa: ARG002
        """Find no runs here: agents report theirs when they register."""
        self._host.loop.post(self._opening)
        if not self._is_open:
            self._is_open = True
            self._tasks.every(TICK_S, self._tick, "checking the agents")

    def _opening(self, now: Seconds) -> list[Event]:
        state = self._host.state()
        return [*self.quotas.facts(state, now), *([Resumed(now, CLOSING)] if CLOSING in state.paused else [])]

    async def close(self) -> None:
        """Leave the agents alone. They reconnect when a server is back; until then their lease counts."""
        await self._tasks.close()

    def reset(self) -> None:
        """Make all agents register again, and so repeat what the journal has lost."""
        self.streams.close_all("ABORTED", "the scheduler restarts: connect again")
        self._registry = self._new_registry()

    async def _tick(self) -> None:
        self.streams.deliver(await self._host.loop.call(lambda now: self.registry.tick(now, self._host.ejected())))
        killed = self._registry.killed
        for run in killed[self._logged_kills :]:
            log.warning("%s is killed: the journal does not have it", run)
        self._logged_kills = len(killed)
        if self.adoption.is_active:
            self._host.loop.post(self.adoption.step)
            self._host.loop.decide(self.adoption.decide)

    # ---- decisions in

    def execute(self, order: Order) -> None:
        if isinstance(order, Kill):
            self._kill(order)
            return
        if isinstance(order, Suspended | Continued):
            self._suspend(order.job, order.run, isinstance(order, Suspended))
            return
        if isinstance(order, Start):
            self.logs.started(order)
        self.streams.deliver(self.registry.execute(order))

    def _kill(self, kill: Kill) -> None:
        """Tell the agents of a stopping run to kill it at once."""
        job, registry = self._host.state().running(kill.job, kill.run), self.registry
        for node in nodes_of(job.slots) if job is not None else ():
            if (conn := registry.conn_of(node)) is not None and (member := registry.member_at(conn)) is not None:
                self.streams.send(conn, stop_run(kill.job, kill.run, member, "cancelled", 0.0))

    def _suspend(self, job: JobId, run: int, suspended: bool, only: NodeId = "") -> None:
        """Tell the agents of a run, or only one of them, whether its processes are suspended."""
        known, registry = self._host.state().running(job, run), self.registry
        for node in nodes_of(known.slots) if known is not None else ():
            conn = registry.conn_of(node) if only in ("", node) else None
            if conn is not None and (member := registry.member_at(conn)) is not None:
                self.streams.send(conn, suspend_run(job, run, member, suspended))

    def send_to(self, node: NodeId, message: m.SchedulerMessage) -> bool:
        """Send a message to a node; return False if it is not connected."""
        conn = self.registry.conn_of(node)
        return conn is not None and self.streams.send(conn, message)

    # ---- reports of agents

    async def receive(self, conn: int, message: m.AgentMessage) -> None:
        """Process a message. Return once its events are on disk and its replies are queued."""
        match message.WhichOneof("is"):
            case "progress":
                self._progress(conn, message.progress)
            case "log":
                self.logs.answered(conn, message.log)
            case "tail":
                await self.logs.keep(conn, message.tail)
            case "kept" if self.adoption.is_active:
                jobs = self.adoption.wanted(message.kept.jobs[:MAX_JOBS_PER_MESSAGE])
                self.streams.send(conn, m.SchedulerMessage(describe=m.DescribeRuns(jobs=jobs)))
            case "kept":
                self.logs.forget_unknown(conn, message.kept)
            case "record":
                if (member := self.registry.member_at(conn)) is not None:
                    self.adoption.add(member.id, message.record)
            case kind:
                replies: list[Reply] = await self._host.loop.call(lambda now: self.registry.receive(conn, message, now))
                if kind == "hello" and (member := self.registry.member_at(conn)) is not None:
                    self.inventory.registered(member)
                    for job in self._host.state().active.values():
                        if job.suspended:  # the order may have been lost with the connection
                            self._suspend(job.id, job.run, True, member.id)
                self.streams.deliver(replies)

    def disconnected(self, conn: int) -> None:
        member = self.registry.member_at(conn)
        if member is not None:
            log.info("node %s is not connected any more", member.id)
        self.logs.disconnected(conn)
        self._host.loop.post(lambda now: self._disconnect(conn, now))

    def _disconnect(self, conn: int, now: Seconds) -> list[Event]:
        events, replies = self.registry.disconnect(conn, now)
        self.streams.deliver(replies)
        return events

    def _progress(self, conn: int, report: m.Progress) -> None:
        if len(report.json) >= MAX_REPORT_CHARS or not self.registry.speaks_for(conn, report.job, report.run):
            return
        try:
            body = {**json.loads(report.json), "job": report.job, "run": report.run}
            self._host.progress(body)
            if body.get("checkpoint"):
                self._checkpoints.keep(report.job, body["checkpoint"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError, WeftError):
            log.debug("job %s reports invalid progress", report.job)


class AgentAdmission:
    """Nodes come and go, so a job must only be valid. Users have quotas."""

    def __init__(self, quotas: Quotas, numbers: GpuNumbers, blobs: Path, shared: BlobTable | None = None) -> None:
        self.quotas: Quotas | None = quotas
        self._numbers, self._blobs, self._shared = numbers, blobs, shared

    def check_settings(self, settings: Settings) -> None:
        check_settings(settings)

    def rules(self, scheduler: Scheduler) -> ClusterRules:
        return ClusterRules(scheduler.state, self._numbers, self._blobs, self._shared)


def check_settings(settings: Settings) -> None:
    """Raise for a policy or placement that cannot be loaded."""
    policy = plugins.load_policy(settings.policy)
    plugins.load_placement(settings.placement or policy.placement)


def agent_backend(host: Host) -> BackendPorts:
    """Build the backend of a cluster. Agents connect to the port of the server."""
    backend = AgentBackend(host)
    admission = AgentAdmission(backend.quotas, backend.inventory.numbers, host.paths.blobs, host.blobs)
    return BackendPorts(
        backend, backend.inventory, backend.logs, admission, endpoint=Agents(backend), reset=backend.reset,
        send_to=backend.send_to,
    )  # fmt: skip
