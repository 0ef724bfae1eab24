"""The nodes that waiting jobs need of pools."""

from __future__ import annotations

from dataclasses import replace

from weft.model import (
    AllocationRequested,
    Fact,
    Gpu,
    Held,
    Job,
    Limited,
    Node,
    NodeJoined,
    Paused,
    PerRank,
    Pool,
    PoolAdded,
    PoolPaused,
    Start,
    Submitted,
    Task,
    Where,
)
from weft.scheduling.core.state.state import State
from weft.scheduling.placements.packed import Packed
from weft.server.pools.demand import Demand, Fits, measure_demand

POOL = Pool("a100", "slurm", 4, 3, 3600.0, "A100", 80_000)


def demand(*facts: object, pools: tuple[Pool, ...] = (POOL,), coming: tuple[str, ...] = ()) -> dict[str, Demand]:
    state = State()
    for fact in (*(PoolAdded(0.0, pool) for pool in pools), *facts):
        assert state.apply(fact)  # type: ignore[arg-type]
    waiting = (*state.services.waiting.values(), *state.waiting.values())
    return measure_demand(state, Packed(), waiting, {"a100": coming} if coming else {}, Fits())


def submitted(*jobs: Job) -> list[Submitted]:
    return [Submitted(0.0, job) for job in jobs]


def jobs(count: int, gpus: int = 1, **fields: object) -> list[Submitted]:
    return submitted(*(Job(str(n), gpus=gpus, **fields) for n in range(1, count + 1)))  # type: ignore[arg-type]


def test_jobs_are_packed_into_whole_nodes() -> None:
    assert demand(*jobs(5))["a100"].nodes == 2
    assert demand(*jobs(4))["a100"].nodes == 1
    assert demand()["a100"].nodes == 0


def test_no_more_than_the_pool_has_are_asked_for() -> None:
    assert demand(*jobs(100))["a100"].nodes == 3


def test_a_gang_needs_all_its_nodes_at_once() -> None:
    found = demand(*jobs(1, gpus=8))["a100"]
    assert (found.nodes, found.gang) == (2, 2)
    assert demand(*jobs(1, gpus=13))["a100"].nodes == 0  # more than the pool ever has


def test_free_gpus_and_nodes_on_their_way_are_used_first() -> None:
    node = NodeJoined(0.0, Node("n1", (Gpu("A100", 80_000),) * 4))
    assert demand(node, *jobs(4))["a100"].nodes == 0
    assert demand(node, *jobs(5))["a100"].nodes == 1
    assert demand(*jobs(5), coming=("a100-0",))["a100"].nodes == 1
    asked = AllocationRequested(0.0, "a100", "k", "a100-0")
    assert demand(asked, *jobs(100), coming=("a100-0",))["a100"].nodes == 2


def test_nodes_that_a_waiting_job_would_use_are_named() -> None:
    assert demand(*jobs(3), coming=("a100-0", "a100-1"))["a100"].used == {"a100-0"}


def test_running_jobs_hold_their_gpus() -> None:
    node = NodeJoined(0.0, Node("n1", (Gpu("A100", 80_000),) * 4))
    first, *rest = jobs(4, gpus=4)
    facts = [node, first, Start(0.0, "1", 1, (("n1", (0, 1, 2, 3)),)), *rest]
    assert demand(*facts)["a100"].nodes == 3


def test_jobs_that_no_node_of_the_pool_could_run_are_no_demand() -> None:
    assert demand(*jobs(3, where=Where("H100")))["a100"].nodes == 0
    assert demand(*jobs(3, where=Where(labels=(("pool", "b"),))))["a100"].nodes == 0
    assert demand(*jobs(3, where=Where(labels=(("pool", "a100"),))))["a100"].nodes == 1
    assert demand(*jobs(3, memory_mb=PerRank(90_000)))["a100"].nodes == 0
    assert demand(*jobs(3, declared_s=3500.0))["a100"].nodes == 0
    assert demand(*jobs(3, declared_s=3400.0))["a100"].nodes == 1
    assert demand(*jobs(1, task=Task(time_limit_s=7200.0), declared_s=60.0))["a100"].nodes == 0


def test_held_blocked_and_limited_jobs_are_no_demand() -> None:
    assert demand(*jobs(1), Held(1.0, "1"))["a100"].nodes == 0
    assert demand(*jobs(1, gpus=4), *submitted(Job("2", gpus=4, after=("1",))))["a100"].nodes == 1
    assert demand(Limited(0.0, "", 4), *jobs(3, gpus=4, user="ada"))["a100"].nodes == 1
    assert demand(*jobs(3), Paused(1.0))["a100"].nodes == 0


def test_a_second_pool_gets_what_the_first_cannot_hold() -> None:
    big = replace(POOL, name="h100", model="H100", max_nodes=5)
    found = demand(*jobs(100), pools=(POOL, big))
    assert (found["a100"].nodes, found["h100"].nodes) == (3, 5)
    found = demand(PoolPaused(0.0, "a100"), *jobs(4), pools=(POOL, big))
    assert (found["a100"].nodes, found["h100"].nodes) == (0, 1)


def test_a_short_job_is_demand_behind_one_that_outlasts_the_pool() -> None:
    long, short = Job("1", declared_s=7200.0), Job("2", declared_s=60.0)
    assert demand(*submitted(long, short))["a100"].nodes == 1


def test_what_is_asked_for_starts_on_the_node_that_comes() -> None:
    """A pool that asks for nodes on which the job then does not start would ask for ever."""
    for time_s in (60.0, 600.0, 28_800.0):
        pool = replace(POOL, time_s=time_s)
        job = Job("1", declared_s=pool.usable_s)
        assert demand(*submitted(job), pools=(pool,))["a100"].nodes == 1
        start_s = min(100.0, 0.15 * time_s)
        until = time_s - pool.leave_grace_s - 5.0
        node = replace(pool.node("a100-0"), until=until)
        state = State()
        facts: list[Fact] = [PoolAdded(0.0, pool), *submitted(job), NodeJoined(start_s, node)]
        assert all(map(state.apply, facts))
        assert state.resources.free_for(state.jobs["1"].shape, after_release=False).total() == 4
