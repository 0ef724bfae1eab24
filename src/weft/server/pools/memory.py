"""The keeper's memory of a pool: what the provider reported last, and since when nodes are idle or unwanted.

A restarted server starts with an empty memory: every time counts from its start then, and nothing goes too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.model import NodeId, Seconds
from weft.model.pool import Allocation
from weft.scheduling.core.state.pools import PoolState
from weft.scheduling.core.state.state import State
from weft.server.pools.demand import Demand
from weft.server.pools.provider import AllocationStatus
from weft.server.pools.rules import NEVER_JOINED, SHORT_LIFE_S, Observed, Phase, Situation


@dataclass(slots=True)
class AllocationMemory:
    status: AllocationStatus | None = None
    """The provider's last report; None: none yet."""
    phase: Phase = "requested"
    since: Seconds = 0.0
    wanted_at: Seconds = 0.0
    idle_since: Seconds | None = None
    was_busy: bool = False
    """True once a run was on its node."""
    error: str = ""
    """The error of a request that failed."""


@dataclass(slots=True)
class PoolMemory:
    allocations: dict[str, AllocationMemory] = field(default_factory=dict)
    calling: set[str] = field(default_factory=set)
    """Allocations that are being requested or given back."""
    observed_at: Seconds = float("-inf")
    observing: bool = False
    spacing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a request and for a while after it, so that requests come one after the other."""
    error: str = ""
    """Why the provider could not be reached; empty: it was."""
    error_since: Seconds = 0.0
    demand: Demand = field(default_factory=Demand)

    def of(self, key: str, now: Seconds) -> AllocationMemory:
        """Return the memory of an allocation, which begins now if there is none."""
        known = self.allocations.get(key)
        if known is None:
            known = self.allocations[key] = AllocationMemory(since=now, wanted_at=now)
        return known

    def forget_others(self, keys: Iterable[str]) -> None:
        """Forget allocations that have ended."""
        kept = set(keys)
        self.allocations = {key: known for key, known in self.allocations.items() if key in kept}

    def update(self, pool: PoolState, state: State, now: Seconds) -> None:
        """Record the phase of each allocation, and since when its node is idle."""
        for allocation in pool.allocations.values():
            known = self.of(allocation.key, now)
            phase = self._phase(allocation, known, state)
            if phase != known.phase:
                known.phase, known.since = phase, now
            host = state.resources.by_id.get(allocation.slot)
            busy = phase == "joined" and host is not None and bool(host.runs())
            known.was_busy |= busy
            known.idle_since = None if busy else now if known.idle_since is None else known.idle_since

    def _phase(self, allocation: Allocation, known: AllocationMemory, state: State) -> Phase:
        if allocation.release:
            return "released"
        host = state.resources.by_id.get(allocation.slot)
        if allocation.joined_at is not None and host is not None and host.alive:
            return "joined"
        if known.status is not None and known.status.phase == "running":
            return "running"
        return "pending" if allocation.id else "requested"

    def coming(self, pool: PoolState) -> list[NodeId]:
        """Return the slots whose nodes are on their way."""
        return [
            each.slot
            for each in pool.allocations.values()
            if self.allocations[each.key].phase in ("requested", "pending", "running")
        ]

    def situation(self, pool: PoolState, state: State, demand: Demand, now: Seconds) -> Situation:
        self.demand = demand
        seen = []
        for each in pool.allocations.values():
            known = self.allocations[each.key]
            if each.slot in demand.used:
                known.wanted_at = now
            seen.append(Observed(each.key, each.slot, known.phase, known.since, known.wanted_at, known.idle_since))
        alive = {host.node.id for host in state.resources.nodes if host.alive and pool.pool.owns(host.node.id)}
        return Situation(
            now, pool.pool, seen, demand.nodes, demand.gang, alive, bool(pool.paused), pool.removing, pool.failures,
            pool.failed_at,
        )  # fmt: skip

    def has_failed(self, allocation: Allocation, now: Seconds) -> bool:
        """Return whether an allocation that has ended counts as a failure."""
        if allocation.joined_at is None:
            return allocation.release in ("", NEVER_JOINED)
        short = now - allocation.joined_at < SHORT_LIFE_S
        known = self.allocations.get(allocation.key)
        return short and not allocation.release and known is not None and not known.was_busy

    @property
    def is_settled(self) -> bool:
        """True if every allocation has joined: the provider has no news soon."""
        return all(known.phase == "joined" for known in self.allocations.values())
