"""The nodes of a cluster and their GPUs, as their agents report them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.model import NodeId
from weft.server.backends.base import Host
from weft.server.gpu_numbers import GpuNumbers
from weft.server.inventory import BackendSummary, GpuUsage, NodeConnection, with_shares
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.registry import NodeRegistry
from weft.wire.views.doctor import DeviceView, MembersView

FILE: Final = "numbers.json"
log = logging.getLogger(__name__)


class AgentInventory:
    def __init__(self, host: Host, registry: Callable[[], NodeRegistry], *, lease_s: float, heartbeat_s: float) -> None:
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
                status=member.status,
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
        )


def _load(path: Path) -> dict[NodeId, list[int]]:
    """Return the GPU numbers of each node, as last saved."""
    try:
        found = json.loads(path.read_text())
        return {str(node): [int(number) for number in numbers] for node, numbers in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
