"""What happened: each event is a value stamped with the time at which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.model.ids import JobId, NodeId, Seconds
from weft.model.job import Job
from weft.model.node import Node

Outcome = Literal["done", "failed", "stopped", "lost", "requeued"]
"""Requeued: it ended by itself and asked to be run again."""


@dataclass(frozen=True, slots=True)
class NodeJoined:
    at: Seconds
    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    at: Seconds
    node: NodeId


@dataclass(frozen=True, slots=True)
class Submitted:
    at: Seconds
    job: Job


@dataclass(frozen=True, slots=True)
class Cancelled:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Held:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Released:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Edited:
    """A job that does not run yet is to be this instead."""

    at: Seconds
    job: Job


@dataclass(frozen=True, slots=True)
class Purged:
    """Jobs that have ended are removed from the state."""

    at: Seconds
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing new is started until `Resumed` for the same reason."""

    at: Seconds
    why: str = "Paused"
    """The reason's code: Paused (by a user), DiskFloor, PolicyFailed."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    at: Seconds
    why: str = "Paused"


@dataclass(frozen=True, slots=True)
class Blocked:
    """A GPU may not be used, or not all of its memory: whoever is on it stays, nobody new comes."""

    at: Seconds
    node: NodeId
    gpu: int
    why: str
    """The reason's code: ForeignProcess, DirtyGpu, Drained. A GPU may be blocked for several reasons at once."""
    memory_mb: int | None = None
    """Only so much memory is taken; None: the whole GPU."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unblocked:
    at: Seconds
    node: NodeId
    gpu: int
    why: str


@dataclass(frozen=True, slots=True)
class Cordoned:
    """Nothing new starts on a node until `Uncordoned` for the same reason. Its runs stay.

    A node that is lost and joins again is still cordoned.
    """

    at: Seconds
    node: NodeId
    why: str
    """The reason's code: Drained (by an admin), ReqNodeNotAvail (its agent is silent). There may be several."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Uncordoned:
    at: Seconds
    node: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class Limited:
    """The jobs of a user may hold so many GPUs; None: as everybody. The user '' is everybody: then None is no limit."""

    at: Seconds
    user: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A run was seen to need this much memory on each of its GPUs, more or less than it was given."""

    at: Seconds
    job: JobId
    run: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Started:
    """The run works now, getting through `rate` seconds of its solo work each second."""

    at: Seconds
    job: JobId
    run: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Progressed:
    at: Seconds
    job: JobId
    run: int
    remaining_s: float | None
    """Solo seconds of work still to do, where known."""
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Exited:
    at: Seconds
    job: JobId
    run: int
    how: Outcome
    remaining_s: float | None = None
    """Solo seconds still to do from the last checkpoint, where known."""
    code: int | None = None
    why: str = ""
    """What the code does not say: timeout, oom, lost, reboot, ..."""
    delay_s: float = 0.0
    """Its next run is to wait this long."""


@dataclass(frozen=True, slots=True)
class AdminAction:
    """Who asked the scheduler for what. The effects follow as separate facts."""

    at: Seconds
    who: str
    verb: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """An alarm that the scheduler had set went off."""

    at: Seconds


Event = (
    NodeJoined | NodeLost | Blocked | Unblocked | Cordoned | Uncordoned | Limited | Submitted | Edited | Cancelled
    | Held | Released | Purged | Paused | Resumed | Started | Progressed | Measured | Exited | AdminAction | Wake
)  # fmt: skip
