"""Pools as views, and what they mean for a job that waits."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model import Seconds
from weft.model.status import Reason
from weft.scheduling.core.reasons import format_wait
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.node_ends import time_needed_s
from weft.scheduling.core.state.pools import PoolState
from weft.server.pools.demand import outlasts
from weft.server.pools.keeper import PoolKeeper
from weft.server.pools.memory import AllocationMemory
from weft.server.pools.providers import TITLES
from weft.server.pools.rules import CRASH_LOOP, WAITING
from weft.text import format_duration
from weft.views.answers.explain import ReasonView
from weft.views.answers.pools import AllocationView, PoolView
from weft.views.from_state.timestamps import iso


def pool_views(keeper: PoolKeeper, now: Seconds, *, is_admin: bool) -> list[PoolView]:
    return [_view(keeper, pool, now, is_admin=is_admin) for pool in keeper.state.pools.by_name.values()]


def _view(keeper: PoolKeeper, state: PoolState, now: Seconds, *, is_admin: bool) -> PoolView:
    pool, memory = state.pool, keeper.memory(state.pool.name)
    word = "removing" if state.removing else "paused" if state.paused else "unreachable" if memory.error else "open"
    allocations = [_allocation(keeper, state, key, now) for key in state.allocations]
    return PoolView(
        name=pool.name, provider=pool.provider, state=word, why=state.paused, detail=state.detail or memory.error,
        nodes=sum(each.phase == "joined" for each in allocations),
        waiting=sum(each.phase in WAITING for each in allocations), wanted=memory.demand.nodes,
        max_nodes=pool.max_nodes, min_nodes=pool.min_nodes, gpus=pool.gpus, model=pool.model, memory_mb=pool.memory_mb,
        cpus=pool.cpus, ram_mb=pool.ram_mb, labels=dict(pool.labels), time_s=pool.time_s, idle_s=pool.idle_s,
        backlog=pool.backlog, leave_grace_s=pool.leave_grace_s, options=pool.options, settings=dict(pool.settings),
        folder=str(keeper.folder_of(pool)) if is_admin else "", failures=state.failures, failure=state.failure,
        allocations=allocations,
    )  # fmt: skip


def _allocation(keeper: PoolKeeper, state: PoolState, key: str, now: Seconds) -> AllocationView:
    each, known = state.allocations[key], keeper.memory(state.pool.name).allocations.get(key, AllocationMemory())
    host = keeper.state.resources.by_id.get(each.slot)
    status = known.status
    joined = known.phase == "joined"
    return AllocationView(
        key=key, node=each.slot, id=each.id, phase="released" if each.release else known.phase,
        reason=each.release or (status.reason if status is not None and status.phase == "pending" else known.error),
        requested=iso(each.requested_at),
        ends=iso(status.ends_at) if status is not None and status.ends_at is not None else None,
        jobs=len(host.runs()) if joined and host is not None else 0,
        idle_s=round(now - known.idle_since, 1) if joined and known.idle_since is not None else None,
    )  # fmt: skip


def explain_pools(keeper: PoolKeeper, job: JobState, now: Seconds) -> Iterator[ReasonView]:
    """Yield what the pools that could run a waiting job are doing."""
    scheduler = keeper.scheduler
    for state in keeper.state.pools.by_name.values():
        pool = state.pool
        if not keeper.fits.of(pool, scheduler.placement).could_hold(job.job):
            continue
        if outlasts(pool, job.job):
            need_s = time_needed_s(job.job) or 0.0
            enough = f"time={-(-(need_s + pool.time_s - pool.usable_s) // 60):.0f}m"
            yield ReasonView(
                Reason.LONGER,
                f"it needs {format_duration(need_s)}, the nodes of pool {pool.name} last "
                f"{format_duration(pool.time_s)} (weft pool set {pool.name} {enough})",
            )
        else:
            yield ReasonView(Reason.POOL, f"{pool.name}: {_describe(keeper, state, now)}")


def _describe(keeper: PoolKeeper, state: PoolState, now: Seconds) -> str:
    name, memory, title = state.pool.name, keeper.memory(state.pool.name), TITLES[state.pool.provider]
    if state.removing:
        return "it is being removed"
    if state.paused:
        first = state.detail.partition("\n")[0]
        return f"paused ({state.paused})" + (f": {first}" if first else "") + f"; weft pool resume {name}"
    if memory.error:
        return f"{title} cannot be reached since {format_wait(now - memory.error_since)}: {memory.error}"
    live = [(each, memory.allocations.get(each.key)) for each in state.allocations.values() if not each.release]
    waiting = [(each, known) for each, known in live if known is None or known.phase in WAITING]
    if waiting:
        since = format_wait(now - min(each.requested_at for each, _ in waiting))
        reasons = {known.status.reason for _, known in waiting if known and known.status and known.status.reason}
        why = f" ({', '.join(sorted(reasons))})" if reasons else ""
        verb = "allocation waits" if len(waiting) == 1 else "allocations wait"
        return f"{len(waiting)} {verb} in {title}{why} since {since}"
    coming = sum(known is not None and known.phase == "running" for _, known in live)
    if coming:
        return f"{coming} of its nodes start{'s' if coming == 1 else ''} now"
    if len(state.allocations) >= state.pool.max_nodes:
        return (
            f"all {state.pool.max_nodes} nodes are in use (weft pool set {name} max-nodes={state.pool.max_nodes + 1})"
        )
    return f"{len(live)} of {state.pool.max_nodes} nodes"


def pool_problems(keeper: PoolKeeper) -> list[str]:
    """Return what is wrong with pools, for `weft doctor`."""
    found = []
    for name, state in keeper.state.pools.by_name.items():
        if state.paused == CRASH_LOOP:
            found.append(
                f"pool {name} is paused: {' '.join(state.detail.split())[:300]}; weft pool show {name} says more"
            )
        elif error := keeper.memory(name).error:
            found.append(f"pool {name}: {error}")
    return found
