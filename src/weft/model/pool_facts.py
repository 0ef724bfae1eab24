"""Events about pools and their allocations. Requests and releases are journalled before the provider is called."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.ids import NodeId, Seconds
from weft.model.pool import Allocation, Pool


@dataclass(frozen=True, slots=True)
class PoolAdded:
    at: Seconds
    pool: Pool


@dataclass(frozen=True, slots=True)
class PoolChanged:
    """A user changed a pool. Allocations that exist stay as they are."""

    at: Seconds
    pool: Pool


@dataclass(frozen=True, slots=True)
class PoolRemoved:
    """A user removed a pool. It is gone once its last allocation has ended."""

    at: Seconds
    pool: str
    now: bool = False
    """True: allocations end at once; False: when the jobs on them have ended."""


@dataclass(frozen=True, slots=True)
class PoolPaused:
    """A pool requests no more allocations until `PoolResumed`."""

    at: Seconds
    pool: str
    why: str = "Paused"
    """The reason's code: Paused (by a user), CrashLoop."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PoolResumed:
    at: Seconds
    pool: str


@dataclass(frozen=True, slots=True)
class AllocationRequested:
    """A pool is about to ask its provider for a node."""

    at: Seconds
    pool: str
    key: str
    slot: NodeId


@dataclass(frozen=True, slots=True)
class AllocationGranted:
    """The provider has accepted a request. The allocation may still wait for nodes there."""

    at: Seconds
    pool: str
    key: str
    id: str


@dataclass(frozen=True, slots=True)
class AllocationReleased:
    """A pool is about to give an allocation back."""

    at: Seconds
    pool: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class AllocationEnded:
    at: Seconds
    pool: str
    key: str
    how: str
    """As the provider calls it, such as COMPLETED or TIMEOUT."""
    failed: bool = False
    """True if no worker registered from it, or none that lived for long or ran anything."""
    detail: str = ""


PoolEvent = (
    PoolAdded | PoolChanged | PoolRemoved | PoolPaused | PoolResumed | AllocationRequested | AllocationGranted
    | AllocationReleased | AllocationEnded
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The state of one pool."""

    at: Seconds
    pool: Pool
    paused: str = ""
    """Why it is paused; empty: it is not."""
    detail: str = ""
    failures: int = 0
    """Allocations in a row that failed."""
    failed_at: Seconds | None = None
    removing: str = ""
    """`now` or `drain` if it was removed."""
    allocations: tuple[Allocation, ...] = ()
    failure: str = ""
    """The last failure, with the end of its log."""
