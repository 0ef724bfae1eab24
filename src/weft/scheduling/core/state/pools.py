"""The state of pools and their allocations. Any code may read it; only `State.apply` writes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from weft.model import NodeId, Seconds
from weft.model.pool import Allocation, Pool

Removing = Literal["", "now", "drain"]


class PoolState:
    """A pool and its allocations that have not ended."""

    __slots__ = ("allocations", "detail", "failed_at", "failure", "failures", "paused", "pool", "removing")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.paused = self.detail = ""
        """Why it requests no allocations, as a code and in words; empty: it does."""
        self.failures = 0
        """Allocations in a row that failed."""
        self.failed_at: Seconds | None = None
        self.failure = ""
        """The last failure: the provider's word for it, and the last lines of the allocation's log."""
        self.removing: Removing = ""
        self.allocations: dict[str, Allocation] = {}
        """By key, in the order of their requests."""


class Pools:
    """All pools by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, PoolState] = {}

    def of_node(self, node: NodeId) -> PoolState | None:
        """Return the pool that a node belongs to, by its name."""
        found = self.by_name.get(node.rpartition("-")[0])
        return found if found is not None and found.pool.owns(node) else None

    def note_joined(self, node: NodeId, at: Seconds) -> None:
        """Record that the node of an allocation has joined."""
        pool = self.of_node(node)
        for key, allocation in pool.allocations.items() if pool is not None else ():
            if allocation.slot == node and allocation.joined_at is None:
                pool.allocations[key] = replace(allocation, joined_at=at)  # type: ignore[union-attr]

    def discard_removed(self, name: str) -> None:
        """Forget a removed pool that has no allocations any more."""
        pool = self.by_name.get(name)
        if pool is not None and pool.removing and not pool.allocations:
            del self.by_name[name]
