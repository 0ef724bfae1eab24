"""The rules by which a pool grows and shrinks: a situation in, actions out. Pure.

A pool asks only for nodes that some waiting job needs beyond what is free or on its way, never for more than its
maximum. It gives back every node that no job needs. Allocations that fail in a row pause the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weft.model import NodeId, Seconds
from weft.model.pool import Pool
from weft.scheduling.core.state.pools import Removing

Phase = Literal["requested", "pending", "running", "joined", "released"]
"""`requested`: the provider has not answered yet; `pending`: it waits there; `running`: no worker has joined yet."""
WAITING: Final[tuple[Phase, ...]] = ("requested", "pending")
MAX_FAILURES: Final = 3
"""A pool whose allocations fail this many times in a row is paused."""
FAILURE_DELAYS_S: Final = (0.0, 0.0, 5.0)
"""The time that a pool waits after each failure in a row before its next request."""
JOIN_TIMEOUT_S: Final = 120.0
"""An allocation that runs for this long without a worker is given back, as a failure."""
UNWANTED_S: Final = 60.0
"""An allocation on its way that no job needs for this long is given back."""
SHORT_LIFE_S: Final = 30.0
"""A worker that leaves sooner, without a run, counts as a failure."""
CRASH_LOOP: Final = "CrashLoop"
NEVER_JOINED: Final = f"no worker joined within {JOIN_TIMEOUT_S:.0f} s"
UNWANTED: Final = "no job needs it any more"
REMOVED: Final = "the pool is removed"


@dataclass(frozen=True, slots=True)
class Observed:
    """An allocation, as the rules see it."""

    key: str
    slot: NodeId
    phase: Phase
    since: Seconds
    """When its phase began; of a node that has joined: when it did."""
    wanted_at: Seconds
    """The last time at which a waiting job needed its node, or at which it was requested."""
    idle_since: Seconds | None = None
    """Since when no run holds its node; None: one does."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the rules read."""

    now: Seconds
    pool: Pool
    allocations: Sequence[Observed] = ()
    wanted: int = 0
    """Nodes that waiting jobs need beyond what is free or on its way."""
    gang: int = 0
    """The most of these that one job needs at once."""
    taken: Collection[NodeId] = ()
    """Names of nodes that are still in use, apart from the slots of the allocations."""
    paused: bool = False
    removing: Removing = ""
    failures: int = 0
    failed_at: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Request:
    slot: NodeId


@dataclass(frozen=True, slots=True)
class Release:
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Pause:
    why: str
    detail: str


Action = Request | Release | Pause


def plan(now: Situation) -> list[Action]:
    """Return what to do now. Nothing else happens until the next call has seen the result."""
    if now.removing:
        return list(_remove(now))
    releases = list(_releases(now))
    if now.failures >= MAX_FAILURES and not now.paused:
        return [Pause(CRASH_LOOP, f"{now.failures} allocations in a row failed"), *releases]
    return [*releases, *_requests(now, len(releases))]


def delay_until(failures: int, failed_at: Seconds | None) -> Seconds:
    """Return the earliest time of the next request."""
    if failed_at is None:
        return float("-inf")
    return failed_at + FAILURE_DELAYS_S[min(failures, len(FAILURE_DELAYS_S) - 1)]


def _remove(now: Situation) -> Iterator[Release]:
    """Give back all allocations of a removed pool: at once, or as soon as no run is on them."""
    for each in now.allocations:
        busy = each.phase == "joined" and each.idle_since is None
        if each.phase != "released" and (now.removing == "now" or not busy):
            yield Release(each.key, REMOVED)


def _releases(now: Situation) -> Iterator[Release]:
    """Give back what no job needs, all of it in one turn, but keep the least number of nodes."""
    kept = sum(each.phase != "released" for each in now.allocations)
    for each in now.allocations:
        if each.phase == "running" and now.now - each.since >= JOIN_TIMEOUT_S:
            kept -= 1
            yield Release(each.key, NEVER_JOINED)
            continue
        why = _why_unneeded(now, each)
        if why and kept > now.pool.min_nodes:
            kept -= 1
            yield Release(each.key, why)


def _why_unneeded(now: Situation, each: Observed) -> str:
    """Return why an allocation is not needed any more; empty if it is, or may be again soon."""
    unwanted_s = now.now - each.wanted_at
    if each.phase == "joined":
        if each.idle_since is None:
            return ""
        idle_s = min(now.now - max(each.idle_since, each.since), unwanted_s)
        return f"idle for {idle_s:.0f} s" if idle_s >= now.pool.idle_s else ""
    return UNWANTED if each.phase != "released" and unwanted_s >= UNWANTED_S else ""


def _requests(now: Situation, released: int) -> Iterator[Request]:
    pool = now.pool
    if now.paused or now.now < delay_until(now.failures, now.failed_at):
        return
    live = sum(each.phase != "released" for each in now.allocations) - released
    waiting = sum(each.phase in WAITING for each in now.allocations)
    # an allocation that is given back still holds its place until the provider has ended it
    room = pool.max_nodes - len(now.allocations)
    count = min(max(now.wanted, pool.min_nodes - live), room, max(pool.backlog, now.gang) - waiting)
    taken = {*now.taken, *(each.slot for each in now.allocations)}
    number = 0
    for _ in range(count):
        while (slot := f"{pool.name}-{number}") in taken:
            number += 1
        taken.add(slot)
        yield Request(slot)
