"""What is known of the nodes of a cluster and their GPUs, as their agents report it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from weft.engines.process.shim import run_files
from weft.model import NodeId
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.backends.base import Host
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.registry import NodeRegistry

FILE: Final = "numbers.json"
log = logging.getLogger(__name__)


class AgentInventory:
    def __init__(self, host: Host, registry: Callable[[], NodeRegistry], *, lease_s: float, heartbeat_s: float) -> None:
        self._host, self._registry, self._lease_s, self._heartbeat_s = host, registry, lease_s, heartbeat_s
        self.numbers = GpuNumbers()
        self._path = host.paths.state / FILE
        self._numbered = _load(self._path)
        for node, numbers in self._numbered.items():
            self.numbers.know(node, numbers)

    def registered(self, member: RegisteredNode) -> None:
        """Keep how the node numbers its GPUs: jobs name them by these numbers while it is away, too."""
        numbers = [gpu.index for gpu in member.spec.gpus]
        self.numbers.know(member.id, numbers)
        if self._numbered.get(member.id) != numbers:
            self._numbered[member.id] = numbers
            run_files.write_atomic(str(self._path), json.dumps(self._numbered).encode())
        log.info("node %s has registered: %d GPUs, Weft %s", member.id, len(numbers), member.version)

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        now, registry = self._host.loop.clock.now(), self._registry()
        return {
            member.id: {
                "state": "connected" if member.connected else "silent", "beat_s": round(now - member.heard_at, 3),
                "load": round(member.load, 2), "address": member.spec.address, "version": member.version,
                "lost_in_s": None if member.connected else round(registry.lost_at(member) - now, 3),
            }
            for member in registry.members()
        }  # fmt: skip

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        return {
            (member.id, reading.gpu): {
                "used_mb": reading.used_mb, "utilisation": reading.utilisation, "processes": reading.processes,
            }
            for member in self._registry().members() if member.connected
            for reading in member.readings
        }  # fmt: skip

    def about(self) -> dict[str, Any]:
        members = list(self._registry().members())
        return {
            "node": "",
            "nodes": {"connected": sum(each.connected for each in members), "all": len(members)},
            "gpus": [
                {"model": gpu.model, "memory_mb": gpu.memory_mb}
                for room in self._host.state().resources.nodes if room.alive for gpu in room.node.gpus
            ],
            "gpus_from": "agents", "driver": "ok", "cpus": 0, "ram_mb": 0,
            "lease_s": self._lease_s, "beat_s": self._heartbeat_s,
        }  # fmt: skip


def _load(path: Path) -> dict[NodeId, list[int]]:
    """How the GPUs of nodes were numbered when they were last here."""
    try:
        found = json.loads(path.read_text())
        return {str(node): [int(number) for number in numbers] for node, numbers in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
