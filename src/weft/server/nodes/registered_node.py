"""A node as the registry keeps it, and its conversion to the node that the core sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.access.wire.messages import NodeSpec, NodeStatus
from weft.model import Node, NodeId, Seconds


@dataclass(slots=True)
class RegisteredNode:
    """A node of the cluster, connected or not."""

    node: Node
    """The node as it last registered. The event may not have reached the state yet."""
    heard_at: Seconds
    """When the last heartbeat was received. The lease counts from then."""
    conn: int | None = None
    silent: bool = False
    full: dict[str, Seconds] = field(default_factory=dict)
    """The resources that the node has run out of, each with the time until which it is cordoned for that."""
    epoch: int = 0
    instance: str = ""
    version: str = ""
    hello_at: float = 0.0
    """By the clock of the node, as is `heartbeat_at`."""
    heartbeat_at: float = 0.0
    spec: NodeSpec = field(default_factory=NodeSpec)
    """Empty until the node has registered with this server."""
    status: NodeStatus = field(default_factory=NodeStatus)
    """As the last heartbeat reported it."""

    @property
    def id(self) -> NodeId:
        return self.node.id

    @property
    def connected(self) -> bool:
        return self.conn is not None and not self.silent


def same_gpus(member: RegisteredNode, node: Node, spec: NodeSpec) -> bool:
    """Return whether a node has the same GPUs as before. Cards can be compared only if it has registered here."""
    before = member.spec
    if member.node.gpus != node.gpus:
        return False
    return not before.id or [(g.index, g.uuid) for g in before.gpus] == [(g.index, g.uuid) for g in spec.gpus]
