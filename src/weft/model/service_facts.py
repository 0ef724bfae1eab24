"""Events and decisions about services and their replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.ids import JobId, Seconds, Slots
from weft.model.service import Revision, Rollout, Service

NEW_ROLLOUT: Final = Rollout()


@dataclass(frozen=True, slots=True)
class Deployed:
    """A user deployed a service, or changed it. A higher version replaces all replicas, one after the other."""

    at: Seconds
    service: Service
    who: str = ""
    rollback: bool = False
    """True: it is an earlier version, and the one before it is not to come back by itself."""
    start: bool = False
    """True: one replica starts even if no request asks for one."""


@dataclass(frozen=True, slots=True)
class Undeployed:
    """A user removed a service: its replicas are drained, then stop."""

    at: Seconds
    service: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A replica answers requests from now on."""

    at: Seconds
    job: JobId
    run: int
    address: str = ""
    """The host and port at which it answers."""


@dataclass(frozen=True, slots=True)
class Unready:
    """A replica did not become ready in time, or its probes fail: its run stops, and the replica runs again."""

    at: Seconds
    job: JobId
    run: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaDrained:
    """A draining replica has answered its last request."""

    at: Seconds
    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Resized:
    """The number of replicas that a service is to have. `inputs` are the figures of the autoscaler: a replay needs no
    load figures."""

    at: Seconds
    service: str
    replicas: int
    why: str = ""
    inputs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DrainReplica:
    """A replica gets no new requests from now on, and stops once it has answered the ones it has."""

    at: Seconds
    job: JobId
    run: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A replica goes to other GPUs: a new one starts, and once it is ready this one is drained."""

    at: Seconds
    job: JobId
    run: int
    slots: Slots = ()
    """The GPUs of the new replica; empty: the placement chooses them."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A new version failed: an earlier version takes its place. Replicas of that one that still run go on."""

    at: Seconds
    service: Service
    """The earlier version, with a new number."""
    why: str = ""


ServiceEvent = Deployed | Undeployed | Ready | Unready | ReplicaDrained
ServiceDecision = Resized | DrainReplica | Move | RolledBack


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """The state of one service; its replicas are in the snapshots of their jobs."""

    at: Seconds
    service: Service
    replicas: int
    """The number of replicas that it is to have."""
    undeployed: bool = False
    next_index: int = 0
    moved_at: tuple[Seconds, ...] = ()
    """The times of the moves of its replicas within the last minute before its last move."""
    rollout: Rollout = NEW_ROLLOUT
    revisions: tuple[Revision, ...] = ()
    """The earlier versions, oldest first."""
