"""Pools and allocations as facts: what they add up to, and that a snapshot keeps it."""

from __future__ import annotations

from dataclasses import replace

from weft.model import (
    Allocation,
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    Fact,
    Node,
    NodeJoined,
    NodeLost,
    Pool,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
)
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State

POOL = Pool("a100", "slurm", 2, 4, 3600.0)
ASKED = (PoolAdded(0.0, POOL), AllocationRequested(1.0, "a100", "k0", "a100-0"))


def state_of(*facts: Fact) -> State:
    state = State()
    for fact in facts:
        assert state.apply(fact), fact
    return state


def test_an_allocation_from_request_to_end() -> None:
    state = state_of(*ASKED, AllocationGranted(2.0, "a100", "k0", "17"), NodeJoined(3.0, Node("a100-0", ())))
    pool = state.pools.by_name["a100"]
    assert pool.allocations == {"k0": Allocation("k0", "a100-0", 1.0, "17", joined_at=3.0)}
    assert state.apply(NodeLost(4.0, "a100-0"))
    assert state.apply(NodeJoined(5.0, Node("a100-0", ())))
    assert pool.allocations["k0"].joined_at == 3.0
    assert state.apply(AllocationReleased(6.0, "a100", "k0", "idle"))
    assert not state.apply(AllocationReleased(6.0, "a100", "k0", "idle again"))
    assert state.apply(AllocationEnded(7.0, "a100", "k0", "CANCELLED"))
    assert pool.allocations == {}
    assert not state.apply(AllocationEnded(7.0, "a100", "k0", "CANCELLED"))


def test_failures_in_a_row_are_counted_until_a_worker_joins_or_an_admin_resumes() -> None:
    state = state_of(PoolAdded(0.0, POOL))
    pool = state.pools.by_name["a100"]
    for number in range(2):
        assert state.apply(AllocationRequested(1.0, "a100", f"k{number}", "a100-0"))
        assert state.apply(AllocationEnded(2.0 + number, "a100", f"k{number}", "FAILED", failed=True))
    assert (pool.failures, pool.failed_at) == (2, 3.0)
    assert state.apply(AllocationRequested(4.0, "a100", "k2", "a100-0"))
    assert state.apply(NodeJoined(5.0, Node("a100-0", ())))
    assert state.apply(AllocationEnded(6.0, "a100", "k2", "TIMEOUT"))
    assert (pool.failures, pool.failed_at) == (0, None)
    assert state.apply(PoolPaused(7.0, "a100", "CrashLoop", "3 in a row"))
    assert (pool.paused, pool.detail) == ("CrashLoop", "3 in a row")
    assert state.apply(PoolResumed(8.0, "a100"))
    assert (pool.paused, pool.failures) == ("", 0)


def test_a_removed_pool_is_gone_with_its_last_allocation() -> None:
    state = state_of(*ASKED, PoolRemoved(2.0, "a100"))
    assert state.pools.by_name["a100"].removing == "drain"
    assert not state.apply(PoolChanged(3.0, POOL))
    assert state.apply(PoolRemoved(3.0, "a100", now=True))
    assert [pool.removing for pool in state.pools.by_name.values()] == ["now"]
    assert state.apply(AllocationEnded(4.0, "a100", "k0", "CANCELLED"))
    assert state.pools.by_name == {}
    assert state.apply(PoolAdded(5.0, POOL))
    assert state.apply(PoolRemoved(6.0, "a100"))
    assert state.pools.by_name == {}


def test_nodes_belong_to_the_pool_whose_slots_they_are() -> None:
    state = state_of(PoolAdded(0.0, POOL), PoolAdded(0.0, replace(POOL, name="a100-big")))
    assert [pool and pool.pool.name for pool in map(state.pools.of_node, ("a100-0", "a100-big-3", "a100", "n1-1"))] == [
        "a100", "a100-big", None, None,
    ]  # fmt: skip


def test_a_snapshot_keeps_pools() -> None:
    state = state_of(
        *ASKED, AllocationGranted(2.0, "a100", "k0", "17"), NodeJoined(3.0, Node("a100-0", ())),
        AllocationRequested(3.0, "a100", "k1", "a100-1"), AllocationEnded(4.0, "a100", "k1", "FAILED", failed=True),
        AllocationReleased(5.0, "a100", "k0", "idle"), PoolPaused(6.0, "a100", "Paused", "by ada"),
        PoolRemoved(6.0, "a100"),
    )  # fmt: skip
    again = state_of(*snapshot(state))
    one, other = state.pools.by_name["a100"], again.pools.by_name["a100"]
    assert {name: getattr(one, name) for name in one.__slots__} == {n: getattr(other, n) for n in other.__slots__}
