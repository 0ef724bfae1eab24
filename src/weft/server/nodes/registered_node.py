"""The nodes of a cluster as the registry keeps them, and as the core sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.model import Gpu, Node, NodeId, Seconds
from weft.wire.convert import pairs
from weft.wire.messages import GpuReading, NodeSpec


@dataclass(slots=True)
class RegisteredNode:
    """A node that counts, connected or not."""

    node: Node
    """As it joined, by the last that was said of it: the state may have yet to hear of that."""
    heard_at: Seconds
    """When its last heartbeat was received: its lease counts from then."""
    conn: int | None = None
    silent: bool = False
    full: dict[str, Seconds] = field(default_factory=dict)
    """What it has run out of, and until when nothing is started there for that reason."""
    epoch: int = 0
    instance: str = ""
    version: str = ""
    hello_at: float = 0.0
    """By its own clock, as `heartbeat_at`."""
    heartbeat_at: float = 0.0
    spec: NodeSpec = field(default_factory=NodeSpec)
    """Empty until it has registered with this scheduler."""
    load: float = 0.0
    ram_used_mb: int = 0
    readings: tuple[GpuReading, ...] = ()

    @property
    def id(self) -> NodeId:
        return self.node.id

    @property
    def connected(self) -> bool:
        return self.conn is not None and not self.silent


def node_of(spec: NodeSpec, disk_id: str) -> Node:
    return Node(
        spec.id,
        tuple(Gpu(gpu.model, gpu.memory_mb) for gpu in spec.gpus),
        cpus=spec.cpus,
        ram_mb=spec.ram_mb,
        switch=spec.switch,
        labels=(("node", spec.id), *(pair for pair in pairs(spec.labels) if pair[0] != "node")),
        disk_id=disk_id,
    )


def same_gpus(member: RegisteredNode, node: Node, spec: NodeSpec) -> bool:
    """Whether a node has the GPUs that it had. Which cards they are is known only once it has registered here."""
    before = member.spec
    if member.node.gpus != node.gpus:
        return False
    return not before.id or [(g.index, g.uuid) for g in before.gpus] == [(g.index, g.uuid) for g in spec.gpus]
