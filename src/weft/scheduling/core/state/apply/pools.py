"""Facts about pools and their allocations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.model import (
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
    PoolSnapshot,
)
from weft.model.pool import Allocation
from weft.scheduling.core.state.pools import PoolState

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State


def added(state: State, fact: PoolAdded) -> bool:
    if fact.pool.name in state.pools.by_name:
        return False
    state.pools.by_name[fact.pool.name] = PoolState(fact.pool)
    return True


def changed(state: State, fact: PoolChanged) -> bool:
    pool = state.pools.by_name.get(fact.pool.name)
    if pool is None or pool.removing:
        return False
    pool.pool = fact.pool
    return True


def removed(state: State, fact: PoolRemoved) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    if pool is None:
        return False
    pool.removing = "now" if fact.now or pool.removing == "now" else "drain"
    state.pools.discard_removed(fact.pool)
    return True


def paused(state: State, fact: PoolPaused) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    if pool is None:
        return False
    pool.paused, pool.detail = fact.why, fact.detail
    return True


def resumed(state: State, fact: PoolResumed) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    if pool is None:
        return False
    pool.paused = pool.detail = ""
    pool.failures, pool.failed_at = 0, None
    return True


def requested(state: State, fact: AllocationRequested) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    if pool is None or fact.key in pool.allocations:
        return False
    pool.allocations[fact.key] = Allocation(fact.key, fact.slot, fact.at)
    return True


def granted(state: State, fact: AllocationGranted) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    known = None if pool is None else pool.allocations.get(fact.key)
    if pool is None or known is None:
        return False
    pool.allocations[fact.key] = replace(known, id=fact.id)
    return True


def released(state: State, fact: AllocationReleased) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    known = None if pool is None else pool.allocations.get(fact.key)
    if pool is None or known is None or known.release:
        return False
    pool.allocations[fact.key] = replace(known, release=fact.why)
    return True


def ended(state: State, fact: AllocationEnded) -> bool:
    pool = state.pools.by_name.get(fact.pool)
    known = None if pool is None else pool.allocations.pop(fact.key, None)
    if pool is None or known is None:
        return False
    if fact.failed:
        pool.failures, pool.failed_at = pool.failures + 1, fact.at
        pool.failure = f"{fact.how}\n{fact.detail}".strip()
    elif known.joined_at is not None:
        pool.failures, pool.failed_at = 0, None
    state.pools.discard_removed(fact.pool)
    return True


def snapshot_of(pool: PoolState, at: float) -> PoolSnapshot:
    return PoolSnapshot(
        at, pool.pool, pool.paused, pool.detail, pool.failures, pool.failed_at, pool.removing,
        tuple(pool.allocations.values()), pool.failure,
    )  # fmt: skip


def restore_pool(state: State, fact: PoolSnapshot) -> bool:
    pool = state.pools.by_name[fact.pool.name] = PoolState(fact.pool)
    pool.paused, pool.detail, pool.failures, pool.failed_at = fact.paused, fact.detail, fact.failures, fact.failed_at
    pool.failure = fact.failure
    pool.removing = "now" if fact.removing == "now" else "drain" if fact.removing else ""
    pool.allocations = {allocation.key: allocation for allocation in fact.allocations}
    return True
