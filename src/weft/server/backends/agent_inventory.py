"""The nodes of a cluster and their GPUs, as their agents report them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.model import NodeId
from weft.model.pool import is_of_pool
from weft.model.status import Reason
from weft.server.backends.base import Host
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.registry import NodeRegistry
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT
from weft.views.answers.doctor import DeviceView, MembersView
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import BackendSummary, GpuUsage, NodeConnection, with_shares

FILE: Final = "numbers.json"
LOW_DISK_MB: Final = 512
log = logging.getLogger(__name__)


class AgentInventory:
    def __init__(
        self,
        host: Host,
        registry: Callable[[], NodeRegistry],
        run_problems: Callable[[], list[str]],
        *,
        lease_s: float,
        heartbeat_s: float,
    ) -> None:
        self._run_problems = run_problems
        self._host, self._registry, self._lease_s, self._heartbeat_s = host, registry, lease_s, heartbeat_s
        self.numbers = GpuNumbers()
        self._path = host.paths.state / FILE
        self._numbered = _load(self._path)
        for node, numbers in self._numbered.items():
            self.numbers.set_numbers(node, numbers)

    def registered(self, member: RegisteredNode) -> None:
        """Save how the node numbers its GPUs: jobs may name them by number while it is away."""
        numbers = [gpu.index for gpu in member.spec.gpus]
        self.numbers.set_numbers(member.id, numbers)
        if self._numbered.get(member.id) != numbers:
            self._numbered[member.id] = numbers
            write_atomic(self._path, json.dumps(self._numbered).encode())
            self._host.files.changed(self._path)
        log.info("node %s has registered: %d GPUs, Weft %s", member.id, len(numbers), member.version)

    def nodes(self) -> Mapping[NodeId, NodeConnection]:
        now, registry = self._host.loop.clock.now(), self._registry()
        return {
            member.id: NodeConnection(
                state="connected" if member.connected else "silent",
                beat_s=round(now - member.heard_at, 3),
                load=round(member.status.load, 2),
                address=member.spec.address,
                port=member.spec.port,
                version=member.version,
                lost_in_s=None if member.connected else round(registry.lost_at(member) - now, 3),
            )
            for member in registry.members()
        }

    def readings(self) -> Mapping[tuple[NodeId, int], GpuUsage]:
        found = {}
        for member in self._registry().members():
            if member.connected:
                readings = {
                    (member.id, reading.gpu): GpuUsage(
                        reading.used_mb,
                        reading.utilisation,
                        reading.processes,
                        error=reading.error,
                        energy_j=reading.energy_j if reading.HasField("energy_j") else None,
                    )
                    for reading in member.status.readings
                }
                found.update(with_shares(readings, member.id, member.status.shares))
        return found

    def summary(self) -> BackendSummary:
        members = list(self._registry().members())
        hosts = [host for host in self._host.state().resources.nodes if host.alive]
        return BackendSummary(
            nodes=MembersView(connected=sum(each.connected for each in members), known=len(members)),
            gpus=[DeviceView(gpu.model, gpu.memory_mb) for host in hosts for gpu in host.node.gpus],
            gpus_from="agents",
            driver="ok",
            lease_s=self._lease_s,
            beat_s=self._heartbeat_s,
            problems=[*self._disk_problems(members), *self._node_problems(), *self._run_problems()],
        )

    def _disk_problems(self, members: Iterable[RegisteredNode]) -> Iterator[str]:
        found = os.statvfs(self._host.paths.state)
        free_mb = {"the server": found.f_bavail * found.f_frsize >> 20}
        free_mb |= {
            f"node {each.id}": each.status.disk_free_mb for each in members if each.status.HasField("disk_free_mb")
        }
        for where, left_mb in free_mb.items():
            if left_mb < LOW_DISK_MB:
                yield f"{where} has only {left_mb} MB of disk space left for state and logs"

    def _node_problems(self) -> Iterator[str]:
        """Yield what keeps nodes from working. A node that an admin has drained may be away."""
        state, connections = self._host.state(), self.nodes()
        hosts = [host for host in state.resources.nodes if state.resources.by_id[host.node.id] is host]
        for host in hosts:
            node = host.node.id
            closed = {why: closure.detail for (name, why), closure in state.closed.items() if name == node}
            connection = connections.get(node)
            if Reason.DRAINED in closed or Reason.NODE_LEAVING in closed:
                continue
            if not host.alive:
                if Reason.NODE_SILENT in closed and not is_of_pool(host.node):
                    yield f"node {node} is lost: its agent sends no heartbeats; weft drain {node} if it stays away"
            elif connection is not None and connection.lost_in_s is not None:
                left_s = connection.lost_in_s
                yield f"node {node} is silent for {connection.beat_s:.0f} s: its runs are lost in {left_s:.0f} s"
            for why in (Reason.NODE_UNHEALTHY, DISK_FLOOR, FILE_LIMIT):
                if why in closed:
                    yield f"nothing starts on node {node} ({why}): {closed[why]}"


def _load(path: Path) -> dict[NodeId, list[int]]:
    """Return the GPU numbers of each node, as last saved."""
    try:
        found = json.loads(path.read_text())
        return {str(node): [int(number) for number in numbers] for node, numbers in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
