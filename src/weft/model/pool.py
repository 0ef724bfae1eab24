"""Pools: nodes that come and go by demand, as allocations of another scheduler such as Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.ids import NodeId, Seconds
from weft.model.node import CONTAINERS, Gpu, Node

MAX_START_S: Final = 120.0
MAX_START_PART: Final = 0.2
"""The time between the start of an allocation and that of its first job: seconds, or a part of a short allocation."""
END_MARGIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pool:
    """The hardware of each node of a pool, its provider, and the number of nodes."""

    name: str
    provider: str
    """Where nodes come from: slurm, ray or kubernetes."""
    gpus: int
    """GPUs of each node."""
    max_nodes: int
    time_s: float
    """The length of an allocation. The user gives it: the queue of a site depends on it."""
    model: str = ""
    memory_mb: int = 32768
    cpus: int = 0
    """0: not counted."""
    ram_mb: int = 0
    """0: not counted."""
    labels: tuple[tuple[str, str], ...] = ()
    min_nodes: int = 0
    backlog: int = 2
    """The most allocations that wait at a time. A gang may need more."""
    idle_s: float = 300.0
    """A node that no job needs is given back after this time."""
    leave_grace_s: float = 20.0
    """The most time that jobs get to save their work before an allocation ends."""
    options: tuple[str, ...] = ()
    """Options of the site, passed on as they are."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of the provider, such as the address of its server."""

    @property
    def usable_s(self) -> float:
        """The time that a job has on a node at least: not the start of its worker, nor the end that saves work."""
        start_s = min(MAX_START_S, MAX_START_PART * self.time_s)
        return self.time_s - start_s - self.leave_grace_s - END_MARGIN_S

    def setting(self, name: str, default: str = "") -> str:
        return dict(self.settings).get(name, default)

    def node(self, slot: NodeId) -> Node:
        """Return the node that an allocation brings."""
        gpus = (Gpu(self.model, self.memory_mb),) * self.gpus
        return Node(slot, gpus, self.cpus, self.ram_mb, labels=(CONTAINERS, ("pool", self.name), *self.labels))

    def owns(self, node: NodeId) -> bool:
        """Return whether this is the name of one of its nodes."""
        prefix, _, number = node.rpartition("-")
        return prefix == self.name and number.isascii() and number.isdecimal()


@dataclass(frozen=True, slots=True)
class Allocation:
    """A request for one node, from the moment it is journalled until the provider has ended it."""

    key: str
    """Its name. The provider is asked for it under this name, so that it is found again after a crash."""
    slot: NodeId
    """The name of its node. Slots are reused."""
    requested_at: Seconds
    id: str = ""
    """The provider's id; empty until the provider has answered."""
    joined_at: Seconds | None = None
    """When its node first joined; None: it has not."""
    release: str = ""
    """Why it is given back; empty: it is not."""


def is_of_pool(node: Node) -> bool:
    """Return whether a node came from a pool, by its name and its label."""
    pool = dict(node.labels).get("pool")
    return pool is not None and node.id.rpartition("-")[0] == pool
